import { describe, expect, it } from "vitest";
import { plainText, spansOf } from "./ansi";
import { ago, bytes, cores, duration, plural, shellCommand } from "./format";
import { jobIdOf, jobPath, rootOf, shortName, taskIndex, userOf } from "./paths";

describe("numbers", () => {
  it("are told in the two units that matter", () => {
    expect([0, 999, 1_000, 65_000, 3_600_000, 7_500_000, 86_400_000 * 12].map(duration)).toEqual([
      "0 s",
      "0 s",
      "1 s",
      "1 min 5 s",
      "1 h",
      "2 h 5 min",
      "12 d",
    ]);
  });

  it("lie in the past even when the clocks differ", () => {
    expect([ago(10_000, 9_000), ago(0, 59_000), ago(0, 60_000), ago(0, 90_000_000)]).toEqual([
      "just now",
      "59 s ago",
      "1 min ago",
      "1 d ago",
    ]);
  });

  it("have the units that people use", () => {
    expect([0, 1_023, 1_536, 24 * 2 ** 30].map(bytes)).toEqual(["0 B", "1023 B", "1.5 KiB", "24 GiB"]);
    expect([1_000, 500, 2_000].map(cores)).toEqual(["1 core", "0.5 cores", "2 cores"]);
    expect([plural(1, "job"), plural(1_200, "job"), plural(2, "child", "children")]).toEqual([
      "1 job",
      "1,200 jobs",
      "2 children",
    ]);
  });
});

describe("a command", () => {
  it("can be pasted into a shell", () => {
    expect(shellCommand(["sh", "-c", "echo 'hi' $X", "", "a=b"])).toBe(`sh -c 'echo '"'"'hi'"'"' $X' '' a=b`);
  });
});

describe("an address", () => {
  it("leads back to the job it was made of, whatever its name", () => {
    for (const id of ["/alice/train", "/a b/50%/x?y#z", "/ü/%2F"]) expect(jobIdOf(jobPath(id))).toBe(id);
  });

  it("that names no job gives none", () => {
    expect([jobIdOf("/jobs"), jobIdOf("/jobs/alice"), jobIdOf("/jobs/a/%zz")]).toEqual(["", "", ""]);
  });

  it("is taken apart", () => {
    const id = "/alice/train/eval";
    expect([rootOf(id), userOf(id), shortName(id), taskIndex(`${id}/12`)]).toEqual([
      "/alice/train",
      "alice",
      "train/eval",
      12,
    ]);
  });
});

describe("terminal output", () => {
  it("keeps its colours and loses every other escape sequence", () => {
    expect(spansOf("\u001b[1;31mbad\u001b[0m fine\u001b[2K\u001b]0;title\u0007!")).toEqual([
      { text: "bad", style: "ansi-bold ansi-fg-1" },
      { text: " fine", style: "" },
      { text: "!", style: "" },
    ]);
  });

  it("shows colours that have no class as plain text, and what follows them rightly", () => {
    expect(spansOf("\u001b[38;5;196;1mx\u001b[39;22;32my")).toEqual([
      { text: "x", style: "ansi-bold" },
      { text: "y", style: "ansi-fg-2" },
    ]);
  });

  it("is free of control characters but for tabs", () => {
    expect(plainText("a\u0000b\tc\u001b(Bd\u009be")).toBe("ab\tcde");
  });
});
