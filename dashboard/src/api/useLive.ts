import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { cluster } from "./clients";
import { type LiveState, watchChanges } from "./live";
import { invalidate } from "./queries";

/** The controller holds an answer for 25 s; what takes much longer has been lost on the way. */
const WATCH_TIMEOUT_MS = 40_000;

/** Whether this tab hears of changes. One watch while it is visible, none while it is hidden. */
export function useLive(): LiveState {
  const client = useQueryClient();
  const [state, setState] = useState<LiveState>({ live: true, since: 0 });
  const visible = useVisible();
  useEffect(() => {
    if (!visible) return;
    const stop = new AbortController();
    void watchChanges(
      {
        watch: (position, signal) =>
          cluster
            .watchChanges({ position }, { signal, timeoutMs: WATCH_TIMEOUT_MS })
            .then(({ rootJobIds, ...answer }) => ({ ...answer, roots: rootJobIds })),
        tell: (news) => invalidate(client, news),
        show: (next) => setState((now) => (now.live === next.live && now.since === next.since ? now : next)),
        now: Date.now,
        wait,
        random: Math.random,
      },
      stop.signal,
    );
    return () => stop.abort();
  }, [client, visible]);
  return state;
}

export function useVisible(): boolean {
  const [visible, setVisible] = useState(!document.hidden);
  useEffect(() => {
    const look = () => setVisible(!document.hidden);
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
  return visible;
}

/** Resolves after that long, or when `signal` ends it; sooner when the machine is back on a network. */
export function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      removeEventListener("online", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
    addEventListener("online", done);
    if (signal.aborted) done();
  });
}
