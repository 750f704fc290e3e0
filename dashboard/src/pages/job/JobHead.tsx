import { useQuery } from "@tanstack/react-query";
import { Fragment } from "react";
import { Link } from "react-router";
import { clusterInfo } from "../../api/queries";
import { mayCancel } from "../../api/roles";
import { JobState, type JobStatus, PeerStatus } from "../../gen/iris_fed/rpc/gen/job/job_pb";
import { usePerson } from "../../parts/person";
import { State } from "../../parts/State";
import { jobEnded, jobLook } from "../../parts/states";
import { useLostPeers } from "../../parts/useLostPeers";
import { Lasting, When } from "../../parts/When";
import { jobPath, userOf } from "../../text/paths";
import { CancelJob } from "./CancelJob";

const HANDOFF: Partial<Record<PeerStatus, string>> = {
  [PeerStatus.PENDING_SCHEDULING]: "to be handed to",
  [PeerStatus.ASSIGNED]: "taken by",
  [PeerStatus.SYNCED]: "runs on",
  [PeerStatus.REJECTED]: "refused by",
};

export function JobHead({ job }: { job: JobStatus }) {
  const person = usePerson();
  const look = jobLook(job.state);
  const ended = jobEnded(job.state);
  const reason = ended ? job.error : job.pendingReason || job.statusMessage;
  const jobId = job.jobId ?? "";
  return (
    <header className="job-head">
      <Crumbs jobId={jobId} />
      <div className="job-title">
        <h1>{job.name}</h1>
        <State look={look} code={job.state === undefined ? undefined : JobState[job.state]} />
        {!ended && mayCancel(person, userOf(jobId)) && <CancelJob jobId={jobId} />}
      </div>
      <p className="job-line">
        <Place job={job} />
        <span>
          submitted <When time={job.submittedAt?.epochMs} />
          {job.submittingUser && ` by ${job.submittingUser}`}
        </span>
        {job.startedAt && (
          <span>
            {ended ? "ran for" : "running for"}{" "}
            <Lasting from={job.startedAt.epochMs} to={job.finishedAt?.epochMs} />
          </span>
        )}
        {job.finishedAt && (
          <span>
            ended <When time={job.finishedAt.epochMs} />
            {job.exitCode !== undefined && ` with exit code ${job.exitCode}`}
          </span>
        )}
      </p>
      {reason && <p className={`job-reason reason-${look.tone}`}>{reason}</p>}
      <Stale job={job} />
    </header>
  );
}

function Place({ job }: { job: JobStatus }) {
  const here = useQuery(clusterInfo).data?.cluster ?? "here";
  const how = job.cluster ? (HANDOFF[job.peerStatus ?? 0] ?? "handed to") : "runs on";
  return (
    <span>
      {jobEnded(job.state) && how === "runs on" ? "ran on" : how} <b>{job.cluster || here}</b>
      {job.backendId && ` / ${job.backendId}`}
      {job.cluster && <span className="muted"> (peer)</span>}
    </span>
  );
}

/** Of a job whose peer is lost: that, and how old what is shown is. */
function Stale({ job }: { job: JobStatus }) {
  const lost = useLostPeers().get(job.cluster ?? "");
  if (!lost || jobEnded(job.state)) return null;
  return (
    <p className="strip warn-strip" role="status">
      {job.cluster} does not answer
      {lost.unreachableSinceMs !== undefined && (
        <>
          {" "}
          (lost <When time={lost.unreachableSinceMs} />)
        </>
      )}
      . What is shown is what it last told, as of{" "}
      <When time={lost.syncedMs ?? lost.lastContactMs} never="never" />.
    </p>
  );
}

function Crumbs({ jobId }: { jobId: string }) {
  const parts = jobId.split("/").filter(Boolean);
  const user = parts[0] ?? "";
  const above = parts.slice(1, -1).map((_, at) => `/${parts.slice(0, at + 2).join("/")}`);
  return (
    <nav className="crumbs" aria-label="Where this job stands">
      <Link to="/jobs">Jobs</Link> / <Link to={`/jobs?${new URLSearchParams({ user })}`}>{user}</Link>
      {above.map((id) => (
        <Fragment key={id}>
          {" "}
          / <Link to={jobPath(id)}>{id.slice(id.lastIndexOf("/") + 1)}</Link>
        </Fragment>
      ))}
    </nav>
  );
}
