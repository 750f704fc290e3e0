import { useState } from "react";
import { Button } from "react-aria-components";
import { Link, useSearchParams } from "react-router";
import {
  type JobStatus,
  type TaskAttempt,
  TaskState,
  type TaskStatus,
} from "../../gen/iris_fed/rpc/gen/job/job_pb";
import { State } from "../../parts/State";
import { taskLook } from "../../parts/states";
import { Lasting } from "../../parts/When";
import { bytes, plural } from "../../text/format";
import { taskIndex } from "../../text/paths";

const PAGE = 50;
const MEBIBYTE = 2 ** 20;

export function TaskTable({ job }: { job: JobStatus }) {
  const [page, setPage] = useState(0);
  const pages = Math.max(1, Math.ceil(job.tasks.length / PAGE));
  const at = Math.min(page, pages - 1);
  return (
    <section className="block" aria-labelledby="tasks">
      <h2 id="tasks">
        Tasks <span className="card-note">{summary(job)}</span>
      </h2>
      {job.tasks.length === 0 ? (
        <p className="muted">
          None yet: {job.cluster ? `${job.cluster} has told of none.` : "they are made when it starts."}
        </p>
      ) : (
        <table className="tasks" aria-label="Tasks">
          <thead>
            <tr>
              <th scope="col" className="num">
                Task
              </th>
              <th scope="col">State</th>
              <th scope="col">Machine</th>
              <th scope="col" className="num">
                Exit
              </th>
              <th scope="col" className="num">
                Ran for
              </th>
              <th scope="col" className="num">
                Memory peak
              </th>
              <th scope="col">Attempts</th>
            </tr>
          </thead>
          <tbody>
            {job.tasks.slice(at * PAGE, (at + 1) * PAGE).map((task) => (
              <Task key={task.taskId} task={task} />
            ))}
          </tbody>
        </table>
      )}
      {pages > 1 && (
        <p className="pager">
          <span>
            Tasks {at * PAGE} to {Math.min(job.tasks.length, (at + 1) * PAGE) - 1} of {job.tasks.length}
          </span>
          <Button className="plain" isDisabled={at === 0} onPress={() => setPage(at - 1)}>
            Back
          </Button>
          <Button className="plain" isDisabled={at === pages - 1} onPress={() => setPage(at + 1)}>
            Next {PAGE}
          </Button>
        </p>
      )}
    </section>
  );
}

function Task({ task }: { task: TaskStatus }) {
  const look = taskLook(task.state);
  const reason = task.error || task.pendingReason || task.statusMessage;
  const peak = task.resourceUsage?.memoryPeakMb;
  return (
    <tr>
      <th scope="row" className="num">
        {taskIndex(task.taskId ?? "")}
      </th>
      <td>
        <State look={look} code={task.state === undefined ? undefined : TaskState[task.state]} />
        {reason && <p className={`reason reason-${look.tone}`}>{reason}</p>}
      </td>
      <td data-label="Machine">{task.workerId || <span className="muted">–</span>}</td>
      <td data-label="Exit" className="num">
        {task.exitCode ?? <span className="muted">–</span>}
      </td>
      <td data-label="Ran for" className="num">
        <Lasting from={task.startedAt?.epochMs} to={task.finishedAt?.epochMs} />
      </td>
      <td data-label="Memory peak" className="num">
        {!peak ? <span className="muted">–</span> : bytes(Number(peak) * MEBIBYTE)}
      </td>
      <td data-label="Attempts">
        <Attempts task={task} />
      </td>
    </tr>
  );
}

/** Each leads to its output. */
function Attempts({ task }: { task: TaskStatus }) {
  const [address] = useSearchParams();
  const index = String(taskIndex(task.taskId ?? ""));
  if (task.attempts.length === 0) return <span className="muted">none</span>;
  return (
    <span className="attempts">
      {task.attempts.map((attempt) => {
        const number = String(attempt.attemptId ?? 0);
        const chosen = address.get("task") === index && address.get("attempt") === number;
        return (
          <Link
            key={number}
            to={`?${new URLSearchParams({ task: index, attempt: number })}#output`}
            className={`attempt attempt-${taskLook(attempt.state).tone}`}
            aria-current={chosen || undefined}
            title={attemptText(attempt)}
            aria-label={`Output of task ${index}, attempt ${number}: ${taskLook(attempt.state).word}`}
          >
            {number}
          </Link>
        );
      })}
    </span>
  );
}

function attemptText(attempt: TaskAttempt): string {
  const parts = [taskLook(attempt.state).word];
  if (attempt.exitCode !== undefined) parts.push(`exit code ${attempt.exitCode}`);
  if (attempt.nodeName || attempt.workerId) parts.push(`on ${attempt.nodeName || attempt.workerId}`);
  if (attempt.error) parts.push(attempt.error);
  return parts.join(", ");
}

function summary(job: JobStatus): string {
  const parts = [plural(job.taskCount ?? job.tasks.length, "task")];
  if (job.failureCount) parts.push(plural(job.failureCount, "failure"));
  if (job.preemptionCount) parts.push(plural(job.preemptionCount, "preemption"));
  return parts.join(", ");
}
