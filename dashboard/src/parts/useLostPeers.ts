import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { peers } from "../api/queries";
import type { Controller_PeerSummary } from "../gen/iris_fed/rpc/gen/cluster/controller_pb";

/** Peers that do not answer, by name: what is shown of their jobs is what they last told. */
export function useLostPeers(): ReadonlyMap<string, Controller_PeerSummary> {
  const known = useQuery(peers).data;
  return useMemo(
    () => new Map((known ?? []).filter((peer) => !peer.reachable).map((peer) => [peer.peerId ?? "", peer])),
    [known],
  );
}
