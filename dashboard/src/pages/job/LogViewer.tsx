import { useDeferredValue, useMemo, useState } from "react";
import { Button, Input, Label, SearchField, ToggleButton } from "react-aria-components";
import { useSearchParams } from "react-router";
import type { JobStatus } from "../../gen/iris_fed/rpc/gen/job/job_pb";
import { type Log, useLog } from "../../logs/useLog";
import { plural } from "../../text/format";
import { taskIndex } from "../../text/paths";
import { Choice } from "../JobFilters";
import { LogLines } from "./LogLines";

const TAIL_LINES = 2_000;
const MAX_TASKS_TOGETHER = 256;
/** The table of tasks leads to the output of the others. */
const MAX_TASKS_OFFERED = 500;

export function LogViewer({ job }: { job: JobStatus }) {
  const [address, setAddress] = useSearchParams();
  const [tail, setTail] = useState(TAIL_LINES);
  const count = Math.min(job.taskCount ?? 1, MAX_TASKS_OFFERED);
  const task = address.get("task") ?? (count > 1 && count <= MAX_TASKS_TOGETHER ? "all" : "0");
  const attempt =
    /^\d+$/.test(address.get("attempt") ?? "") && task !== "all" ? Number(address.get("attempt")) : null;
  const log = useLog({
    id: task === "all" ? (job.jobId ?? "") : `${job.jobId}/${Number(task) || 0}`,
    attempt,
    submittedMs: job.submittedAt?.epochMs,
    tail,
  });
  const choose = (part: Record<string, string>) => {
    const next = new URLSearchParams({
      task,
      ...(attempt === null ? {} : { attempt: String(attempt) }),
      ...part,
    });
    if (!next.get("attempt")) next.delete("attempt");
    setAddress(next, { replace: true, preventScrollReset: true });
  };
  return (
    <section className="block log" id="output" aria-labelledby="output-title">
      <h2 id="output-title">Output</h2>
      <Reading
        log={log}
        showTask={task === "all"}
        onEverything={tail === 0 ? undefined : () => setTail(0)}
        choices={
          <>
            {count > 1 && (
              <Choice label="Task" value={task} onChange={(chosen) => choose({ task: chosen, attempt: "" })}>
                {count <= MAX_TASKS_TOGETHER && <option value="all">All tasks</option>}
                {Array.from({ length: count }, (_, index) => String(index)).map((index) => (
                  <option key={index} value={index}>
                    Task {index}
                  </option>
                ))}
              </Choice>
            )}
            {task !== "all" && (
              <Choice
                label="Attempt"
                value={String(attempt ?? "")}
                onChange={(chosen) => choose({ attempt: chosen })}
              >
                <option value="">Latest attempt</option>
                {attemptsOf(job, Number(task) || 0).map((number) => (
                  <option key={number} value={number}>
                    Attempt {number}
                  </option>
                ))}
              </Choice>
            )}
          </>
        }
      />
    </section>
  );
}

function Reading({
  log,
  showTask,
  onEverything,
  choices,
}: {
  log: Log;
  showTask: boolean;
  onEverything: (() => void) | undefined;
  choices: React.ReactNode;
}) {
  const [following, setFollowing] = useState(true);
  const [search, setSearch] = useState("");
  const [step, setStep] = useState(0);
  const wanted = useDeferredValue(search);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the version stands for what the buffer holds
  const found = useMemo(() => log.buffer.find(wanted), [log.buffer, log.version, wanted]);
  const at = found.length === 0 ? -1 : ((step % found.length) + found.length) % found.length;
  const go = (by: number) => {
    setFollowing(false);
    setStep(at + by);
  };
  return (
    <>
      <div className="log-bar">
        {choices}
        <SearchField
          className="field search"
          value={search}
          onChange={(text) => {
            setSearch(text);
            setStep(0);
          }}
          onSubmit={() => go(1)}
        >
          <Label className="unseen">Search the output</Label>
          <Input type="search" placeholder="Search the output" maxLength={200} />
        </SearchField>
        {wanted && (
          <span className="log-found">
            {found.length === 0 ? "not found" : `${at + 1} of ${found.length}`}
            <Button
              className="plain small"
              aria-label="Previous match"
              isDisabled={at < 0}
              onPress={() => go(-1)}
            >
              ↑
            </Button>
            <Button className="plain small" aria-label="Next match" isDisabled={at < 0} onPress={() => go(1)}>
              ↓
            </Button>
          </span>
        )}
        <ToggleButton className="chip" isSelected={following} onChange={setFollowing}>
          Follow
        </ToggleButton>
        <Button className="plain" onPress={() => setFollowing(true)}>
          Jump to end
        </Button>
      </div>
      <LogLines
        buffer={log.buffer}
        version={log.version}
        showTask={showTask}
        search={wanted}
        target={wanted && at >= 0 ? (found[at] ?? null) : null}
        following={following && !(wanted && at >= 0)}
        onLeaveEnd={() => setFollowing(false)}
        empty={emptyText(log)}
      />
      <p className="log-foot">
        <span className={`log-status log-${log.status}`} role={log.problem ? "status" : undefined}>
          {statusText(log)}
        </span>
        {log.buffer.dropped > 0 && <span>{plural(log.buffer.dropped, "earlier line")} not held here</span>}
        {onEverything && log.buffer.lines.length >= TAIL_LINES && (
          <Button className="plain small" onPress={onEverything}>
            Read from the beginning
          </Button>
        )}
      </p>
    </>
  );
}

function attemptsOf(job: JobStatus, index: number): number[] {
  const task = job.tasks.find((one) => taskIndex(one.taskId ?? "") === index);
  return (task?.attempts ?? []).map((attempt) => attempt.attemptId ?? 0);
}

function statusText(log: Log): string {
  const lines = plural(log.buffer.lines.length, "line");
  switch (log.status) {
    case "reading":
      return `${lines}, following`;
    case "complete":
      return `${lines}, complete`;
    case "waiting":
      return `${lines}. ${log.problem} It is tried again.`;
    case "refused":
      return log.problem;
  }
}

function emptyText(log: Log): string {
  if (log.status === "refused") return log.problem;
  return log.status === "complete" ? "Nothing was written." : "Nothing was written yet.";
}
