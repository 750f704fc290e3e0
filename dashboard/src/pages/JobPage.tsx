import { Code } from "@connectrpc/connect";
import { useQuery } from "@tanstack/react-query";
import { Link, useLocation } from "react-router";
import { hasCode } from "../api/failure";
import { children, clusterInfo, job } from "../api/queries";
import {
  type Controller_GetJobStatusResponse,
  Controller_JobQueryScope as Scope,
} from "../gen/iris_fed/rpc/gen/cluster/controller_pb";
import type { JobStatus } from "../gen/iris_fed/rpc/gen/job/job_pb";
import { JobTable } from "../parts/JobTable";
import { Empty, Read } from "../parts/Notices";
import { useTitle } from "../parts/useTitle";
import { plural } from "../text/format";
import { jobIdOf } from "../text/paths";
import { JobFacts } from "./job/JobFacts";
import { JobHead } from "./job/JobHead";
import { LogViewer } from "./job/LogViewer";
import { TaskTable } from "./job/TaskTable";
import { Timeline } from "./job/Timeline";

const CHILDREN_SHOWN = 20;

export function JobPage() {
  const jobId = jobIdOf(useLocation().pathname);
  useTitle(jobId || "No such job");
  return jobId ? <Known key={jobId} jobId={jobId} /> : <NoSuchJob jobId={jobId} />;
}

function Known({ jobId }: { jobId: string }) {
  const query = useQuery(job(jobId));
  if (!query.data && hasCode(query.error, Code.NotFound, Code.InvalidArgument))
    return <NoSuchJob jobId={jobId} />;
  return (
    <Read query={query} what="job">
      {(answer) => (answer.job ? <Whole answer={answer} job={answer.job} /> : <NoSuchJob jobId={jobId} />)}
    </Read>
  );
}

function Whole({ answer, job }: { answer: Controller_GetJobStatusResponse; job: JobStatus }) {
  return (
    <>
      <JobHead job={job} />
      <div className="job-layout">
        <div className="job-main">
          <TaskTable job={job} />
          {job.hasChildren && <Children jobId={job.jobId ?? ""} />}
          <LogViewer job={job} />
        </div>
        <div className="job-side">
          <Timeline jobId={job.jobId ?? ""} taskCount={job.taskCount ?? 1} />
          <JobFacts job={job} request={answer.request} />
        </div>
      </div>
    </>
  );
}

function Children({ jobId }: { jobId: string }) {
  const here = useQuery(clusterInfo).data?.cluster ?? "here";
  const query = useQuery(
    children(jobId, { scope: Scope.CHILDREN, parentJobId: jobId, limit: CHILDREN_SHOWN }),
  );
  return (
    <section className="block" aria-labelledby="children">
      <h2 id="children">Children</h2>
      <Read query={query} what="children">
        {(page) => (
          <>
            <JobTable jobs={page.jobs} here={here} label="Child jobs" />
            {page.hasMore && (
              <p className="muted">
                {plural(page.totalCount ?? 0, "child", "children")};{" "}
                <Link to={`/jobs?${new URLSearchParams({ q: `${jobId}/`, children: "1" })}`}>
                  all of them
                </Link>
              </p>
            )}
          </>
        )}
      </Read>
    </section>
  );
}

function NoSuchJob({ jobId }: { jobId: string }) {
  return (
    <Empty isPage title={jobId ? `There is no job ${jobId}` : "This address names no job"}>
      <p>
        It may have been removed after its time, or it is not yours to see. <Link to="/jobs">All jobs</Link>
      </p>
    </Empty>
  );
}
