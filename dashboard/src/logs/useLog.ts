import { Code } from "@connectrpc/connect";
import { useEffect, useRef, useState } from "react";
import { cluster } from "../api/clients";
import { failureText, hasCode, isPassing } from "../api/failure";
import { backoffMs } from "../api/live";
import { useVisible, wait } from "../api/useLive";
import type { ReadLogsResponse } from "../gen/iris_fed/rpc/gen/irisfed/cluster_pb";
import { LogBuffer } from "./buffer";
import { linesOf, remark } from "./decode";

export interface LogChoice {
  /** A job id (all its tasks) or a task id. */
  id: string;
  /** Attempt number; null = the current one, and those that follow. */
  attempt: number | null;
  /** Which submission is meant, in epoch milliseconds. */
  submittedMs: bigint | undefined;
  /** Lines before the end to start with; 0 = from the beginning. */
  tail: number;
}

export interface Log {
  buffer: LogBuffer;
  /** Changes when the buffer does. */
  version: number;
  status: "reading" | "complete" | "waiting" | "refused";
  /** Why it waits or was refused. */
  problem: string;
}

interface Position {
  taskId: string;
  attemptId: number;
  offset: bigint;
}

const EMPTY = { version: 0, status: "reading", problem: "" } as const;

/** Streams the output until it is complete, going on where it stopped after a cut or a hidden tab. */
export function useLog(choice: LogChoice): Log {
  const visible = useVisible();
  const key = JSON.stringify([choice.id, choice.attempt, String(choice.submittedMs), choice.tail]);
  const held = useRef({
    key: "",
    buffer: new LogBuffer(),
    positions: new Map<string, Position>(),
    complete: false,
  });
  if (held.current.key !== key) {
    held.current = { key, buffer: new LogBuffer(), positions: new Map(), complete: false };
  }
  const [shown, setShown] = useState<Omit<Log, "buffer">>(EMPTY);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the key stands for the whole choice
  useEffect(() => {
    const mine = held.current;
    if (!visible || mine.complete) return;
    const stop = new AbortController();
    let frame = 0;
    const show = (status: Log["status"], problem = "") => {
      mine.complete = status === "complete";
      setShown((now) => ({ version: now.version + 1, status, problem }));
    };
    const showSoon = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        setShown((now) => ({ ...now, version: now.version + 1, status: "reading", problem: "" }));
      });
    };
    const take = (answer: ReadLogsResponse) => {
      for (const { taskId, attemptId, nextOffset } of answer.lines) {
        mine.positions.set(`${taskId}:${attemptId}`, { taskId, attemptId, offset: nextOffset });
      }
      mine.buffer.add(answer.lines.flatMap(linesOf));
      if (answer.notice) mine.buffer.add([remark(answer.notice, Date.now())]);
      showSoon();
    };
    show("reading");
    void follow(choice, mine.positions, take, show, stop.signal);
    return () => {
      stop.abort();
      cancelAnimationFrame(frame);
    };
  }, [key, visible]);

  return { buffer: held.current.buffer, ...shown };
}

async function follow(
  choice: LogChoice,
  positions: ReadonlyMap<string, Position>,
  take: (answer: ReadLogsResponse) => void,
  show: (status: Log["status"], problem?: string) => void,
  signal: AbortSignal,
): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    try {
      for await (const answer of read(choice, positions, signal)) {
        failures = 0;
        take(answer);
      }
      show("complete");
      return;
    } catch (error) {
      if (signal.aborted) return;
      if (!isPassing(error)) {
        show(
          "refused",
          hasCode(error, Code.PermissionDenied) ? "Your role does not show output." : failureText(error),
        );
        return;
      }
      failures += 1;
      show("waiting", failureText(error));
      await wait(backoffMs(failures, Math.random()), signal);
    }
  }
}

function read(choice: LogChoice, positions: ReadonlyMap<string, Position>, signal: AbortSignal) {
  const request = {
    id: choice.id,
    positions: [...positions.values()],
    follow: true,
    tailLines: choice.tail,
    ...(choice.attempt === null ? {} : { attemptId: choice.attempt }),
    ...(choice.submittedMs === undefined ? {} : { submittedMs: choice.submittedMs }),
  };
  // A stream lasts as long as its job: no deadline but the page's own.
  return cluster.readLogs(request, { signal, timeoutMs: 0 });
}
