import { useQuery } from "@tanstack/react-query";
import { backends, clusterInfo, peers } from "../api/queries";
import { BackendList } from "../parts/BackendList";
import { Empty, Read } from "../parts/Notices";
import { useTitle } from "../parts/useTitle";
import { When } from "../parts/When";

const AGES_MS = 10_000;

export function BackendsPage() {
  useTitle("Backends");
  const here = useQuery(clusterInfo).data?.cluster ?? "this cluster";
  const own = useQuery(backends);
  // Numbers that did not change are no news: their age comes from asking.
  const others = useQuery({ ...peers, refetchInterval: AGES_MS }).data ?? [];
  return (
    <>
      <h1>Backends</h1>
      <section className="block" aria-labelledby="own">
        <h2 id="own">
          {here} <span className="card-note">this cluster</span>
        </h2>
        <Read query={own} what="backends">
          {(answer) =>
            answer.backends.length > 0 ? (
              <BackendList backends={answer.backends} cluster="local" />
            ) : (
              <Empty title="This cluster runs nothing itself" />
            )
          }
        </Read>
      </section>
      {others.map((peer) => (
        <section
          key={peer.peerId}
          className={peer.reachable ? "block" : "block old"}
          aria-labelledby={`of-${peer.peerId}`}
        >
          <h2 id={`of-${peer.peerId}`}>
            {peer.peerId}{" "}
            <span className={peer.reachable ? "card-note" : "card-note reason-bad"}>
              {peer.reachable ? "peer" : "unreachable"}, as of <When time={peer.backendsObservedMs} />
            </span>
          </h2>
          {peer.backends.length > 0 ? (
            <BackendList backends={peer.backends} cluster={peer.peerId ?? ""} />
          ) : (
            <Empty title="It has not told of any backend" />
          )}
        </section>
      ))}
    </>
  );
}
