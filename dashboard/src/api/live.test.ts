import { describe, expect, it } from "vitest";
import {
  type Answer,
  backoffMs,
  type LiveState,
  type News,
  QUIET_MS,
  type Surroundings,
  watchChanges,
} from "./live";

const QUIET: Answer = { position: "p", roots: [], allJobs: false, peers: false, backends: false };

/** Plays the answers one after the other, then ends; `Error` is a call that failed. */
async function play(answers: (Answer | Error)[]) {
  const stop = new AbortController();
  const seen = {
    asked: [] as string[],
    told: [] as News[],
    shown: [] as LiveState[],
    waited: [] as number[],
  };
  let clock = 1_000;
  const around: Surroundings = {
    watch: async (position) => {
      seen.asked.push(position);
      const next = answers.shift();
      if (answers.length === 0) stop.abort();
      if (next === undefined || next instanceof Error) throw next ?? new Error("over");
      return next;
    },
    tell: (news) => seen.told.push(news),
    show: (state) => seen.shown.push(state),
    now: () => clock++,
    wait: async (ms) => {
      seen.waited.push(ms);
    },
    random: () => 0,
  };
  await watchChanges(around, stop.signal);
  return seen;
}

describe("watching for changes", () => {
  it("looks at everything once it knows where news stands, and goes on from there", async () => {
    const seen = await play([{ ...QUIET, position: "a" }, { ...QUIET, position: "b" }, QUIET]);
    expect(seen.asked).toEqual(["", "a", "b"]);
    expect(seen.told).toEqual([{ roots: [], allJobs: true, peers: true, backends: true }]);
    expect(seen.waited).toEqual([]);
  });

  it("tells news at once and rests before it asks again", async () => {
    const news = { ...QUIET, roots: ["/alice/train"] };
    const seen = await play([QUIET, news, QUIET]);
    expect(seen.told.at(-1)).toBe(news);
    expect(seen.waited).toEqual([QUIET_MS]);
  });

  it("remembers the first loss, backs off longer each time, and is live again after an answer", async () => {
    const lost = new Error("unreachable");
    const seen = await play([QUIET, lost, lost, QUIET, QUIET]);
    expect(seen.shown.map((state) => state.live)).toEqual([true, false, false, true, true]);
    expect(seen.shown[1]?.since).toBe(seen.shown[2]?.since);
    expect(seen.waited).toEqual([250, 500]);
    expect(seen.asked).toEqual(["", "p", "p", "p", "p"]);
  });

  it("waits between half and the whole of a bounded time that doubles", () => {
    expect([1, 2, 3].map((failures) => backoffMs(failures, 1))).toEqual([500, 1_000, 2_000]);
    expect(backoffMs(50, 1)).toBe(30_000);
    expect(backoffMs(50, 0)).toBe(15_000);
  });
});
