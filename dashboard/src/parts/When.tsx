import { ago, duration, fullTime } from "../text/format";
import { useNow } from "./useNow";

type Time = number | bigint | undefined;

/** `3 min ago`; the full time on pointing at it. */
export function When({ time, never = "never" }: { time: Time; never?: string }) {
  const now = useNow();
  if (!time) return <span className="muted">{never}</span>;
  const at = Number(time);
  return (
    <time dateTime={new Date(at).toISOString()} title={fullTime(at)}>
      {ago(at, now)}
    </time>
  );
}

/** How long from then until `to`, or until now. */
export function Lasting({ from, to }: { from: Time; to?: Time }) {
  const now = useNow();
  if (!from) return <span className="muted">–</span>;
  const end = to === undefined ? now : Number(to);
  return <span title={`since ${fullTime(Number(from))}`}>{duration(end - Number(from))}</span>;
}
