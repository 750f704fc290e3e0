import type { ResourceSpecProto } from "../gen/iris_fed/rpc/gen/job/job_pb";
import { bytes, cores } from "../text/format";

/** `2 cores, 8 GiB, h100 ×8`; "" when nothing was asked for. */
export function resourcesText(resources: ResourceSpecProto | undefined): string {
  if (!resources) return "";
  const parts: string[] = [];
  if (resources.cpuMillicores) parts.push(cores(resources.cpuMillicores));
  if (resources.memoryBytes) parts.push(bytes(Number(resources.memoryBytes)));
  if (resources.diskBytes) parts.push(`${bytes(Number(resources.diskBytes))} disk`);
  const device = resources.device?.device;
  if (device?.case === "gpu" || device?.case === "tpu") {
    parts.push(`${device.value.variant || device.case}\u00a0×${device.value.count || 1}`);
  }
  return parts.join(", ");
}
