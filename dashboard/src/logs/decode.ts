// From pieces of output as they come off the wire to lines of text.
import type { LogLine } from "../gen/iris_fed/rpc/gen/irisfed/cluster_pb";
import { bytes } from "../text/format";
import { taskIndex } from "../text/paths";
import type { Line } from "./buffer";

type NewLine = Omit<Line, "id">;

/** A character that was cut in two by a very long line shows as a replacement character. */
const DECODER = new TextDecoder();

export function linesOf(line: LogLine): NewLine[] {
  const from = { task: taskIndex(line.taskId), attempt: line.attemptId, time: Number(line.timeMs) };
  const found: NewLine[] = [];
  if (line.droppedBytes > 0n) {
    const lost = `${bytes(Number(line.droppedBytes))} of output were dropped here: the attempt wrote more than is kept`;
    found.push({ ...from, task: null, text: lost });
  }
  found.push({ ...from, text: shown(DECODER.decode(line.data)) });
  return found;
}

export function remark(text: string, time: number): NewLine {
  return { task: null, attempt: 0, time, text };
}

/** Without the newline; of what a progress bar overwrote, the last state. */
function shown(text: string): string {
  const line = text.replace(/\r?\n$/, "").replace(/\r+$/, "");
  return line.slice(line.lastIndexOf("\r") + 1);
}
