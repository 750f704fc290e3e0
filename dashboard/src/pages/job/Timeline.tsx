import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ToggleButton } from "react-aria-components";
import { jobEvents } from "../../api/queries";
import type { JobEvent } from "../../gen/iris_fed/rpc/gen/irisfed/cluster_pb";
import { Empty, Read } from "../../parts/Notices";
import { clockTime, duration, fullTime, plural } from "../../text/format";

/** More tasks than this, and what happens to each is shown only on demand. */
const FEW_TASKS = 2;
const SHOWN = 200;

export function Timeline({ jobId, taskCount }: { jobId: string; taskCount: number }) {
  const query = useQuery(jobEvents(jobId));
  return (
    <section className="block" aria-labelledby="timeline">
      <h2 id="timeline">Timeline</h2>
      <Read query={query} what="events">
        {(events) =>
          events.length > 0 ? (
            <Events events={events} few={taskCount <= FEW_TASKS} />
          ) : (
            <Empty title="Nothing is told" />
          )
        }
      </Read>
    </section>
  );
}

function Events({ events, few }: { events: readonly JobEvent[]; few: boolean }) {
  const [all, setAll] = useState(few);
  const ofTasks = events.filter((event) => event.taskIndex !== undefined).length;
  const wanted = all ? events : events.filter((event) => event.taskIndex === undefined);
  const shown = wanted.slice(-SHOWN);
  const first = Number(events[0]?.timeMs ?? 0n);
  return (
    <>
      {!few && ofTasks > 0 && (
        <ToggleButton className="chip" isSelected={all} onChange={setAll}>
          With {plural(ofTasks, "event")} of tasks
        </ToggleButton>
      )}
      {shown.length < wanted.length && (
        <p className="muted">{plural(wanted.length - shown.length, "earlier event")} left out.</p>
      )}
      <ol className="timeline">
        {shown.map((event, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: equal events are told apart by nothing else
          <li key={`${event.timeMs}-${event.kind}-${at}`} className={`event event-${toneOf(event)}`}>
            <time
              dateTime={new Date(Number(event.timeMs)).toISOString()}
              title={fullTime(Number(event.timeMs))}
            >
              {clockTime(Number(event.timeMs))}
              {Number(event.timeMs) - first >= 1_000 && (
                <span className="muted"> +{duration(Number(event.timeMs) - first)}</span>
              )}
            </time>
            <p>
              {event.taskIndex !== undefined && <span className="tag">task {event.taskIndex}</span>}{" "}
              {event.message}
            </p>
            <span className="kind">{event.kind}</span>
          </li>
        ))}
      </ol>
    </>
  );
}

function toneOf({ kind, message }: JobEvent): string {
  if (/refused|missing|forged|unreachable|forgotten/.test(kind)) return "bad";
  if (/cancel|delayed|stopped/.test(kind)) return "wait";
  if (/running|building|accepted|admitted/.test(kind)) return "run";
  if (!kind.endsWith("ended")) return "off";
  if (/succeeded|code 0\b/i.test(message)) return "good";
  return /cancelled|killed/i.test(message) ? "wait" : "bad";
}
