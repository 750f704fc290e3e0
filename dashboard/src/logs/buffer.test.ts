import { expect, it } from "vitest";
import { LogBuffer, MAX_LINE_CHARS } from "./buffer";

const line = (text: string) => ({ task: 0, attempt: 0, time: 0, text });

it("holds no more lines than it may, drops the oldest, and counts them", () => {
  const buffer = new LogBuffer(3, 1_000);
  buffer.add(["a", "b"].map(line));
  buffer.add(["c", "d", "e"].map(line));
  expect(buffer.lines.map(({ text }) => text)).toEqual(["c", "d", "e"]);
  expect(buffer.dropped).toBe(2);
  expect(buffer.lines.map(({ id }) => id)).toEqual([2, 3, 4]);
});

it("holds no more characters than it may, however few the lines", () => {
  const buffer = new LogBuffer(100, 10);
  for (const text of ["1234", "5678", "90ab", "c"]) buffer.add([line(text)]);
  expect(buffer.lines.map(({ text }) => text)).toEqual(["5678", "90ab", "c"].slice(0, 3));
  buffer.add([line("12345678901")]);
  expect(buffer.lines).toEqual([]);
  buffer.add([line("later")]);
  expect(buffer.lines.map(({ text }) => text)).toEqual(["later"]);
});

it("cuts a very long line and says by how much", () => {
  const buffer = new LogBuffer();
  buffer.add([line("x".repeat(MAX_LINE_CHARS + 7))]);
  expect(buffer.lines[0]?.text).toMatch(/x … 7 more characters$/);
});

it("finds what is visible, in either case, and not what is an escape sequence", () => {
  const buffer = new LogBuffer();
  buffer.add(["\u001b[31mError\u001b[0m: 31m", "fine", "an ERROR"].map(line));
  expect(buffer.find("error")).toEqual([0, 2]);
  expect(buffer.find("[31m")).toEqual([]);
  expect(buffer.find("")).toEqual([]);
});
