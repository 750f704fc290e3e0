import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { LogLineSchema } from "../gen/iris_fed/rpc/gen/irisfed/cluster_pb";
import { linesOf } from "./decode";

const texts = (data: string, droppedBytes = 0n) =>
  linesOf(
    create(LogLineSchema, { taskId: "/a/b/7", data: new TextEncoder().encode(data), droppedBytes }),
  ).map(({ task, text }) => [task, text]);

it("shows a line without its newline, and of a progress bar the last state", () => {
  expect(texts("hello\n")).toEqual([[7, "hello"]]);
  expect(texts("hello\r\n")).toEqual([[7, "hello"]]);
  expect(texts("10%\r20%\r100%\r\n")).toEqual([[7, "100%"]]);
});

it("says before a line how much was dropped there", () => {
  expect(texts("on\n", 2048n)).toEqual([
    [null, "2 KiB of output were dropped here: the attempt wrote more than is kept"],
    [7, "on"],
  ]);
});
