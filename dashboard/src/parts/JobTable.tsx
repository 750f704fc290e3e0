import { Link } from "react-router";
import { JobState, type JobStatus } from "../gen/iris_fed/rpc/gen/job/job_pb";
import { jobPath, shortName, userOf } from "../text/paths";
import { resourcesText } from "./resources";
import { State } from "./State";
import { jobEnded, jobLook } from "./states";
import { useLostPeers } from "./useLostPeers";
import { Lasting, When } from "./When";

/** `here`: the name of this cluster. */
export function JobTable({ jobs, here, label }: { jobs: readonly JobStatus[]; here: string; label: string }) {
  return (
    <table className="jobs" aria-label={label}>
      <thead>
        <tr>
          <th scope="col">State</th>
          <th scope="col">Job</th>
          <th scope="col">Runs on</th>
          <th scope="col">Tasks</th>
          <th scope="col">Asks for</th>
          <th scope="col" className="num">
            Submitted
          </th>
          <th scope="col" className="num">
            Ran for
          </th>
        </tr>
      </thead>
      <tbody>
        {jobs.map((job) => (
          <Row key={job.jobId} job={job} here={here} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ job, here }: { job: JobStatus; here: string }) {
  const look = jobLook(job.state);
  const reason = jobEnded(job.state) ? job.error : job.pendingReason || job.statusMessage;
  return (
    <tr>
      <td className="c-state">
        <State look={look} code={job.state === undefined ? undefined : JobState[job.state]} />
      </td>
      <td className="c-job">
        <Link to={jobPath(job.jobId ?? "")} className="job-name">
          <span className="muted">{userOf(job.jobId ?? "")}/</span>
          {shortName(job.jobId ?? "")}
        </Link>
        {job.hasChildren && <span className="tag">children</span>}
        {reason && <p className={`reason reason-${look.tone}`}>{reason}</p>}
      </td>
      <td className="c-where">
        <Where job={job} here={here} />
      </td>
      <td className="c-tasks">
        <Progress job={job} />
      </td>
      <td className="c-asks">{resourcesText(job.resources) || <span className="muted">–</span>}</td>
      <td className="c-when num">
        <When time={job.submittedAt?.epochMs} />
      </td>
      <td className="c-ran num" data-label="ran">
        <Lasting from={job.startedAt?.epochMs} to={job.finishedAt?.epochMs} />
      </td>
    </tr>
  );
}

/** Cluster and backend; of a job on a peer that is lost, how old the news of it is. */
export function Where({ job, here }: { job: JobStatus; here: string }) {
  const lost = useLostPeers().get(job.cluster ?? "");
  return (
    <>
      <span className="place">{job.cluster || here}</span>
      {job.backendId && <span className="muted"> / {job.backendId}</span>}
      {lost && !jobEnded(job.state) && (
        <span className="stale">
          as of <When time={lost.syncedMs ?? lost.lastContactMs} never="unknown" />
        </span>
      )}
    </>
  );
}

function Progress({ job }: { job: JobStatus }) {
  const all = job.taskCount ?? 0;
  const done = job.completedCount ?? 0;
  const running = job.taskStateCounts.RUNNING ?? 0;
  return (
    <span title={`${done} of ${all} tasks have ended, ${running} run`}>
      <span className="nums">
        {done}/{all}
      </span>
      {all > 1 && (
        <svg className="tasks-bar" viewBox={`0 0 ${all} 4`} preserveAspectRatio="none" aria-hidden="true">
          <rect width={all} height="4" className="meter-all" />
          <rect width={done} height="4" className="bar-done" />
          <rect x={done} width={running} height="4" className="meter-taken" />
        </svg>
      )}
    </span>
  );
}
