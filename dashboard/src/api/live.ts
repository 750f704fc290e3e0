// One long poll says what changed; what is on show is then read again. Pure but for what is handed in.

export interface News {
  roots: readonly string[];
  allJobs: boolean;
  peers: boolean;
  backends: boolean;
}

export interface Answer extends News {
  position: string;
}

export interface LiveState {
  live: boolean;
  /** Epoch milliseconds since which nothing is heard; 0 while live. */
  since: number;
}

export interface Surroundings {
  /** One long poll. Rejects when it fails or `signal` ends it. */
  watch(position: string, signal: AbortSignal): Promise<Answer>;
  /** Something changed. */
  tell(news: News): void;
  show(state: LiveState): void;
  now(): number;
  /** Resolves after that long, or at once when `signal` ends it. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
  random(): number;
}

export const QUIET_MS = 1_000;
/** News that keeps coming is taken at most that often. */
const BACKOFF_BASE_MS = 500;
const BACKOFF_MAX_MS = 30_000;
const EVERYTHING: News = { roots: [], allJobs: true, peers: true, backends: true };

/** Waits before the next try after `failures` in a row: doubling, half of it by chance. */
export function backoffMs(failures: number, random: number): number {
  const most = Math.min(BACKOFF_MAX_MS, BACKOFF_BASE_MS * 2 ** Math.max(0, failures - 1));
  return most / 2 + (most / 2) * random;
}

export function isNews(news: News): boolean {
  return news.allJobs || news.peers || news.backends || news.roots.length > 0;
}

/** Runs until `signal` ends it; never two polls at a time. */
export async function watchChanges(around: Surroundings, signal: AbortSignal): Promise<void> {
  let position = "";
  let failures = 0;
  let lostAt = 0;
  while (!signal.aborted) {
    try {
      const first = position === "";
      const answer = await around.watch(position, signal);
      position = answer.position;
      failures = 0;
      lostAt = 0;
      around.show({ live: true, since: 0 });
      // Where news stands is told, not what happened before: what is on show may be older.
      if (first) around.tell(EVERYTHING);
      else if (isNews(answer)) {
        around.tell(answer);
        await around.wait(QUIET_MS, signal);
      }
    } catch {
      if (signal.aborted) return;
      failures += 1;
      lostAt ||= around.now();
      around.show({ live: false, since: lostAt });
      await around.wait(backoffMs(failures, around.random()), signal);
    }
  }
}
