import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { peers } from "../api/queries";
import type { Controller_PeerSummary } from "../gen/iris_fed/rpc/gen/cluster/controller_pb";
import { BackendList } from "../parts/BackendList";
import { Empty, Read } from "../parts/Notices";
import { troublesOf } from "../parts/places";
import { useTitle } from "../parts/useTitle";
import { Lasting, When } from "../parts/When";

const AGES_MS = 5_000;

export function PeersPage() {
  useTitle("Peers");
  // Contact that goes on as it should is no news: the ages shown here come from asking.
  const query = useQuery({ ...peers, refetchInterval: AGES_MS });
  return (
    <>
      <h1>Peers</h1>
      <Read query={query} what="peers">
        {(known) =>
          known.length > 0 ? (
            [...known].sort(worstFirst).map((peer) => <Peer key={peer.peerId} peer={peer} />)
          ) : (
            <Empty title="No peers are declared">
              <p>
                With an entry under <code>peers:</code> in its configuration this cluster hands over jobs that
                it cannot host.
              </p>
            </Empty>
          )
        }
      </Read>
    </>
  );
}

function worstFirst(a: Controller_PeerSummary, b: Controller_PeerSummary): number {
  return troublesOf(b).length - troublesOf(a).length || (a.peerId ?? "").localeCompare(b.peerId ?? "");
}

function Peer({ peer }: { peer: Controller_PeerSummary }) {
  const troubles = troublesOf(peer);
  const name = peer.peerId ?? "";
  return (
    <article
      className={troubles.length > 0 ? "peer card-bad" : "peer card-well"}
      aria-labelledby={`peer-${name}`}
    >
      <header className="peer-head">
        <h2 id={`peer-${name}`}>{name}</h2>
        <Reach peer={peer} />
        <span className="muted address">{peer.controllerAddress}</span>
      </header>
      {troubles.map(({ title, detail }) => (
        <p key={title} className="reason-bad">
          {title}
          {detail && `: ${detail}`}
        </p>
      ))}
      <Facts peer={peer} />
      <section className={peer.reachable ? undefined : "old"} aria-label={`Backends of ${name}`}>
        {peer.backends.length > 0 ? (
          <BackendList backends={peer.backends} cluster={name} />
        ) : (
          <p className="muted">It has not told of any backend.</p>
        )}
      </section>
    </article>
  );
}

function Reach({ peer }: { peer: Controller_PeerSummary }) {
  if (peer.reachable) return <span className="state state-good">reachable</span>;
  if (peer.unreachableSinceMs === undefined) return <span className="state state-bad">not reached yet</span>;
  return (
    <span className="state state-bad">
      unreachable for <Lasting from={peer.unreachableSinceMs} />
    </span>
  );
}

function Facts({ peer }: { peer: Controller_PeerSummary }) {
  const jobsThere = `/jobs?${new URLSearchParams({ cluster: peer.peerId ?? "" })}`;
  return (
    <dl className="facts">
      <Fact name="Last contact">
        <When time={peer.lastContactMs} />
      </Fact>
      <Fact name="Numbers from">
        <When time={peer.backendsObservedMs} />
      </Fact>
      <Fact name="In step">
        <When time={peer.syncedMs} />
      </Fact>
      <Fact name="Active jobs of ours">
        <Link to={jobsThere}>{peer.activeFederatedJobs ?? 0}</Link>
      </Fact>
      <Fact name="Waiting deliveries">{peer.waitingDeliveries ?? 0}</Fact>
      <Fact name="Last refusal">
        {peer.lastRefusal ? (
          <>
            {peer.lastRefusal}{" "}
            <span className="muted">
              (<When time={peer.lastRefusalMs} />)
            </span>
          </>
        ) : (
          <span className="muted">none since the start</span>
        )}
      </Fact>
      <Fact name="Last error">{peer.lastError || <span className="muted">none</span>}</Fact>
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
