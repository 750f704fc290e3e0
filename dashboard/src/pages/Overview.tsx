// What runs where, what waits and why, which peer is in trouble: above the list of jobs.
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { backends, clusterInfo, jobs, peers } from "../api/queries";
import {
  type Controller_BackendSummary,
  type Controller_PeerSummary,
  Controller_SortDirection as Direction,
  Controller_JobQueryScope as Scope,
  Controller_JobSortField as Sort,
} from "../gen/iris_fed/rpc/gen/cluster/controller_pb";
import { FreeMeter } from "../parts/FreeMeter";
import { capacityOf, shapeText, troublesOf } from "../parts/places";
import { When } from "../parts/When";
import { plural } from "../text/format";
import { jobPath } from "../text/paths";

const WAITING_SHOWN = 3;
const PEERS_SHOWN = 8;

export function Overview() {
  const others = [...(useQuery(peers).data ?? [])].sort(
    (a, b) => troublesOf(b).length - troublesOf(a).length,
  );
  return (
    <section className="overview" aria-label="Overview">
      <Here />
      {others.slice(0, PEERS_SHOWN).map((peer) => (
        <Peer key={peer.peerId} peer={peer} />
      ))}
      {others.length > PEERS_SHOWN && (
        <Card tone="well" name={plural(others.length - PEERS_SHOWN, "more peer")} note="" to="/peers">
          <p className="muted">
            {plural(others.filter((peer) => !peer.reachable).length, "peer")} unreachable in all.
          </p>
        </Card>
      )}
      <Waiting />
    </section>
  );
}

function Here() {
  const name = useQuery(clusterInfo).data?.cluster ?? "…";
  const own = useQuery(backends).data?.backends ?? [];
  const running = own.reduce((sum, backend) => sum + (backend.runningTaskCount ?? 0), 0);
  // Every backend tells the same number: what waits here waits for any of them.
  const waiting = Math.max(0, ...own.map((backend) => backend.pendingTaskCount ?? 0));
  return (
    <Card tone="here" name={name} note="this cluster" to="/jobs?cluster=local">
      <p className="figures">
        <Figure value={running} what={running === 1 ? "task runs" : "tasks run"} />
        <Figure value={waiting} what={waiting === 1 ? "waits" : "wait"} />
      </p>
      <Meters backends={own} />
      {own.length === 0 && <p className="muted">Runs nothing itself.</p>}
    </Card>
  );
}

function Peer({ peer }: { peer: Controller_PeerSummary }) {
  const [trouble] = troublesOf(peer);
  const active = peer.activeFederatedJobs ?? 0;
  const waiting = peer.waitingDeliveries ?? 0;
  return (
    <Card
      tone={trouble ? "bad" : "well"}
      name={peer.peerId ?? ""}
      note={trouble ? trouble.title.toLowerCase() : "peer"}
      to={`/jobs?cluster=${encodeURIComponent(peer.peerId ?? "")}`}
    >
      <p className="figures">
        <Figure value={active} what={active === 1 ? "job of ours" : "jobs of ours"} />
        {waiting > 0 && <Figure value={waiting} what="to hand over" />}
      </p>
      {peer.unreachableSinceMs !== undefined && (
        <p className="reason-bad">
          lost <When time={peer.unreachableSinceMs} />, numbers from <When time={peer.backendsObservedMs} />
        </p>
      )}
      <Meters backends={peer.backends} />
    </Card>
  );
}

function Waiting() {
  const query = {
    scope: Scope.ROOTS,
    stateFilter: "PENDING",
    sortField: Sort.DATE,
    sortDirection: Direction.ASC,
    limit: WAITING_SHOWN,
  };
  const waiting = useQuery(jobs(query)).data;
  const count = waiting?.totalCount ?? 0;
  if (!waiting || count === 0) return null;
  return (
    <Card
      tone="wait"
      name={`${plural(count, "job")} ${count === 1 ? "waits" : "wait"}`}
      note="longest first"
      to="/jobs?state=waiting&sort=oldest"
    >
      <ul className="why">
        {waiting.jobs.map((job) => (
          <li key={job.jobId}>
            <Link to={jobPath(job.jobId ?? "")}>{job.jobId}</Link> {job.pendingReason || "waits for its turn"}
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Card(props: { tone: string; name: string; note: string; to: string; children: ReactNode }) {
  return (
    <article className={`card card-${props.tone}`}>
      <h2>
        <Link to={props.to}>{props.name}</Link> <span className="card-note">{props.note}</span>
      </h2>
      {props.children}
    </article>
  );
}

function Figure({ value, what }: { value: number; what: string }) {
  return (
    <span className="figure">
      <b>{value.toLocaleString("en")}</b> {what}
    </span>
  );
}

function Meters({ backends }: { backends: readonly Controller_BackendSummary[] }) {
  const capacity = capacityOf(backends);
  const [only] = backends;
  if (capacity.length === 0 && backends.length === 1 && only?.largestNode) {
    return <p className="muted">{shapeText(only.largestNode)}</p>;
  }
  return capacity.map(({ name, free, total }) => (
    <FreeMeter key={name} name={name} free={free} total={total} />
  ));
}
