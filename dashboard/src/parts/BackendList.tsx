import { Link } from "react-router";
import type { Controller_BackendSummary } from "../gen/iris_fed/rpc/gen/cluster/controller_pb";
import { FreeMeter } from "./FreeMeter";
import { capacityOf, shapeText } from "./places";

/** `cluster`: as the filter of jobs names it. */
export function BackendList({
  backends,
  cluster,
}: {
  backends: readonly Controller_BackendSummary[];
  cluster: string;
}) {
  return (
    <ul className="backends">
      {backends.map((backend) => (
        <li key={backend.backendId} className="card">
          <Backend backend={backend} cluster={cluster} />
        </li>
      ))}
    </ul>
  );
}

function Backend({ backend, cluster }: { backend: Controller_BackendSummary; cluster: string }) {
  const capacity = capacityOf([backend]);
  const id = backend.backendId ?? "";
  return (
    <>
      <h3>
        <Link to={`/jobs?${new URLSearchParams({ cluster, backend: id })}`}>{backend.name || id}</Link>{" "}
        <span className="card-note">{backend.kind}</span>
      </h3>
      {backend.trouble && <p className="problem-text">Takes no work now: {backend.trouble}</p>}
      <p className="figures">
        <span className="figure">
          <b>{backend.runningTaskCount ?? 0}</b> {backend.runningTaskCount === 1 ? "task runs" : "tasks run"}
        </span>
        <span className="figure">
          <b>{backend.pendingTaskCount ?? 0}</b> waiting
        </span>
        <span className="figure">
          <b>{backend.workerCount ?? 0}</b> {backend.workerCount === 1 ? "machine" : "machines"}
        </span>
      </p>
      {capacity.map(({ name, free, total }) => (
        <FreeMeter key={name} name={name} free={free} total={total} />
      ))}
      {backend.largestNode && <p className="muted">Largest machine: {shapeText(backend.largestNode)}</p>}
      <Attributes backend={backend} />
    </>
  );
}

function Attributes({ backend }: { backend: Controller_BackendSummary }) {
  const entries = Object.entries(backend.advertisedAttributes).sort(([a], [b]) => a.localeCompare(b));
  if (entries.length === 0) return null;
  return (
    <ul className="attributes" aria-label="Attributes">
      {entries.map(([key, list]) => (
        <li key={key} className="tag">
          {key} = {list.values.join(", ")}
        </li>
      ))}
    </ul>
  );
}
