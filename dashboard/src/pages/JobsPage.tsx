import { useQuery } from "@tanstack/react-query";
import { Button } from "react-aria-components";
import { useNavigate, useSearchParams } from "react-router";
import { clusterInfo, jobs } from "../api/queries";
import type { Controller_ListJobsResponse } from "../gen/iris_fed/rpc/gen/cluster/controller_pb";
import { JobTable } from "../parts/JobTable";
import { Empty, Read } from "../parts/Notices";
import { useTitle } from "../parts/useTitle";
import { plural } from "../text/format";
import { JobFilters } from "./JobFilters";
import { addressOf, type Filters, filtersOf, isNarrowed, PAGE_SIZE, queryOf } from "./jobQuery";
import { Overview } from "./Overview";

export function JobsPage() {
  useTitle("Jobs");
  const [address, setAddress] = useSearchParams();
  const filters = filtersOf(address);
  // From the address as it is by then: typing is told later than it happens.
  const change = (part: Partial<Filters>, replace = false) => {
    const now = filtersOf(new URLSearchParams(location.search));
    setAddress(addressOf({ ...now, after: "", ...part }), {
      replace,
      preventScrollReset: part.after === undefined,
    });
  };
  const query = useQuery(jobs(queryOf(filters)));
  return (
    <>
      <h1 className="unseen">Jobs</h1>
      <Overview />
      <JobFilters filters={filters} onChange={change} />
      <section
        aria-label="Jobs"
        aria-busy={query.isPlaceholderData}
        className={query.isPlaceholderData ? "dim" : undefined}
      >
        <Read query={query} what="jobs">
          {(page) => <Page page={page} filters={filters} onChange={change} />}
        </Read>
      </section>
    </>
  );
}

function Page({
  page,
  filters,
  onChange,
}: {
  page: Controller_ListJobsResponse;
  filters: Filters;
  onChange: (part: Partial<Filters>) => void;
}) {
  const here = useQuery(clusterInfo).data?.cluster ?? "here";
  if (page.jobs.length === 0) return <Nothing filters={filters} onChange={onChange} />;
  return (
    <>
      <JobTable jobs={page.jobs} here={here} label="Jobs" />
      <Pager page={page} filters={filters} onChange={onChange} />
    </>
  );
}

/** Pages are named by where they begin, so that jobs which appear meanwhile move nothing. */
function Pager({
  page,
  filters,
  onChange,
}: {
  page: Controller_ListJobsResponse;
  filters: Filters;
  onChange: (part: Partial<Filters>) => void;
}) {
  const navigate = useNavigate();
  const next = page.nextPageToken;
  return (
    <div className="pager">
      <span>{plural(page.totalCount ?? page.jobs.length, "job")} in all</span>
      {filters.after !== "" && (
        <>
          <Button className="plain" onPress={() => onChange({ after: "" })}>
            First page
          </Button>
          <Button className="plain" onPress={() => navigate(-1)}>
            Back
          </Button>
        </>
      )}
      {next && (
        <Button className="plain" onPress={() => onChange({ after: next })}>
          Next {PAGE_SIZE}
        </Button>
      )}
    </div>
  );
}

function Nothing({ filters, onChange }: { filters: Filters; onChange: (part: Partial<Filters>) => void }) {
  if (isNarrowed(filters) || filters.after !== "") {
    return (
      <Empty title="No job fits">
        <Button
          className="plain"
          onPress={() => onChange({ search: "", states: [], user: "", cluster: "", backend: "", after: "" })}
        >
          Show all jobs
        </Button>
      </Empty>
    );
  }
  return (
    <Empty title="No jobs yet">
      <p>
        Submit one and it appears here: <code>iris-fed job run -- echo hello</code>
      </p>
    </Empty>
  );
}
