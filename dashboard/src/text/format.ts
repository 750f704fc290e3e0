// Numbers as people read them. Times are epoch milliseconds.

const UNITS: readonly [number, string][] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1_000, "s"],
];

/** `3 min`, `2 h 5 min`, `4 d`; two units at most, below a second `0 s`. */
export function duration(ms: number): string {
  const whole = Math.max(0, ms);
  const at = UNITS.findIndex(([size]) => whole >= size);
  const unit = UNITS[at];
  if (!unit) return "0 s";
  const [size, name] = unit;
  const count = Math.floor(whole / size);
  const next = UNITS[at + 1];
  const rest = next && count < 10 ? Math.floor((whole % size) / next[0]) : 0;
  return next && rest > 0 ? `${count} ${name} ${rest} ${next[1]}` : `${count} ${name}`;
}

/** `just now`, `3 min ago`; one unit. A time ahead of this clock counts as now. */
export function ago(time: number, now: number): string {
  const passed = now - time;
  if (passed < 5_000) return "just now";
  const [size, name] = UNITS.find(([size]) => passed >= size) ?? [1_000, "s"];
  return `${Math.floor(passed / size)} ${name} ago`;
}

const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});

export function fullTime(time: number): string {
  return FULL.format(time);
}

export function clockTime(time: number): string {
  return CLOCK.format(time);
}

/** `512 MiB`, `1.5 GiB`. */
export function bytes(count: number): string {
  const names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = count;
  let at = 0;
  while (value >= 1024 && at < names.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${value >= 10 || at === 0 ? Math.round(value) : Math.round(value * 10) / 10} ${names[at]}`;
}

export function cores(millicores: number): string {
  const value = Math.round(millicores / 10) / 100;
  return `${value} ${value === 1 ? "core" : "cores"}`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

const SAFE_WORD = /^[\w@%+=:,./-]+$/;

/** A command as one would type it into a shell. */
export function shellCommand(argv: readonly string[]): string {
  return argv.map((word) => (SAFE_WORD.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`)).join(" ");
}
