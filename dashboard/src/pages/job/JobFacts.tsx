import type { ReactNode } from "react";
import type { Controller_LaunchJobRequest } from "../../gen/iris_fed/rpc/gen/cluster/controller_pb";
import {
  type Constraint,
  ConstraintMode,
  ConstraintOp,
  type JobStatus,
  PriorityBand,
} from "../../gen/iris_fed/rpc/gen/job/job_pb";
import { resourcesText } from "../../parts/resources";
import { duration, shellCommand } from "../../text/format";

const SIGNS: Record<ConstraintOp, string> = {
  [ConstraintOp.EQ]: "=",
  [ConstraintOp.NE]: "≠",
  [ConstraintOp.EXISTS]: "exists",
  [ConstraintOp.NOT_EXISTS]: "does not exist",
  [ConstraintOp.GT]: ">",
  [ConstraintOp.GE]: "≥",
  [ConstraintOp.LT]: "<",
  [ConstraintOp.LE]: "≤",
  [ConstraintOp.IN]: "is one of",
};

export function JobFacts({
  job,
  request,
}: {
  job: JobStatus;
  request: Controller_LaunchJobRequest | undefined;
}) {
  return (
    <section className="block" aria-labelledby="asked">
      <h2 id="asked">What was asked for</h2>
      <Command request={request} />
      <dl className="facts facts-narrow">
        <Fact name="Each task">{resourcesText(job.resources) || "no resources in particular"}</Fact>
        {request && request.constraints.length > 0 && (
          <Fact name="Only where">
            <ul className="plain-list">
              {[...new Set(request.constraints.map(constraintText))].map((text) => (
                <li key={text}>{text}</li>
              ))}
            </ul>
          </Fact>
        )}
        {request?.coscheduling && <Fact name="Gang">all tasks start together</Fact>}
        {request?.priorityBand !== undefined && (
          <Fact name="Priority">{(PriorityBand[request.priorityBand] ?? "").toLowerCase()}</Fact>
        )}
        {request && (
          <Fact name="Retries">
            {request.maxRetriesFailure ?? 0} after failures, {request.maxRetriesPreemption ?? 0} after
            preemptions
          </Fact>
        )}
        {request?.timeout?.milliseconds && (
          <Fact name="Time limit">{duration(Number(request.timeout.milliseconds))}</Fact>
        )}
        {job.retainedUntil?.epochMs && (
          <Fact name="Kept until">
            <time dateTime={new Date(Number(job.retainedUntil.epochMs)).toISOString()}>
              {new Date(Number(job.retainedUntil.epochMs)).toLocaleDateString()}
            </time>
          </Fact>
        )}
        {job.parentJobId && <Fact name="Parent">{job.parentJobId}</Fact>}
      </dl>
    </section>
  );
}

function Command({ request }: { request: Controller_LaunchJobRequest | undefined }) {
  const argv = request?.entrypoint?.runCommand?.argv ?? [];
  if (argv.length === 0) return <p className="muted">Your role does not show the command.</p>;
  const setup = [
    ...(request?.environment?.setupScripts ?? []),
    ...(request?.entrypoint?.setupCommands ?? []),
  ];
  return (
    <>
      <h3>Command</h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard */}
      <pre className="command" tabIndex={0}>
        {shellCommand(argv)}
      </pre>
      {setup.length > 0 && (
        <details>
          <summary>Runs {setup.length} setup commands before</summary>
          <pre className="command">{setup.join("\n")}</pre>
        </details>
      )}
    </>
  );
}

function constraintText(constraint: Constraint): string {
  const values = [...(constraint.value ? [constraint.value] : []), ...constraint.values];
  const words = values.map(({ value }) => String(value.value ?? ""));
  const soft = constraint.mode === ConstraintMode.PREFERRED ? " (preferred)" : "";
  return `${constraint.key} ${SIGNS[constraint.op ?? ConstraintOp.EQ]} ${words.join(", ")}`.trim() + soft;
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
