import type {
  Controller_BackendSummary,
  Controller_NodeShape,
  Controller_PeerSummary,
} from "../gen/iris_fed/rpc/gen/cluster/controller_pb";
import { bytes, cores } from "../text/format";

export interface Capacity {
  name: string;
  free: number;
  total: number;
}

/** Counted capacity over some backends, by token; backends that give no numbers add nothing. */
export function capacityOf(backends: readonly Controller_BackendSummary[]): Capacity[] {
  const sums = new Map<string, Capacity>();
  for (const { availability } of backends) {
    for (const [name, total] of Object.entries(availability?.totalAmounts ?? {})) {
      const sum = sums.get(name) ?? { name, free: 0, total: 0 };
      sum.total += Number(total);
      sum.free += Number(availability?.amounts[name] ?? 0n);
      sums.set(name, sum);
    }
  }
  return [...sums.values()].sort((a, b) => a.name.localeCompare(b.name));
}

export interface Trouble {
  title: string;
  detail: string;
}

/** What is wrong with a peer, worst first; nothing when all is well. */
export function troublesOf(peer: Controller_PeerSummary): Trouble[] {
  const found: Trouble[] = [];
  if (!peer.reachable) {
    found.push({ title: peer.lastContactMs ? "Unreachable" : "Never reached", detail: peer.lastError ?? "" });
  }
  if (peer.orphans.length > 0) {
    const detail = `It runs ${peer.orphans.length} of our jobs whose names are in use here: ${peer.orphans.slice(0, 3).join(", ")}`;
    found.push({ title: "Orphans", detail });
  }
  return found;
}

/** `2 cores, 24 GiB, h100 ×8`: what one machine has in all. */
export function shapeText(shape: Controller_NodeShape): string {
  const devices = Object.entries(shape.devices).map(([name, count]) => `${name}\u00a0×${count}`);
  return [
    ...(shape.cpuMillicores ? [cores(shape.cpuMillicores)] : []),
    ...(shape.memoryBytes ? [bytes(Number(shape.memoryBytes))] : []),
    ...devices,
  ].join(", ");
}
