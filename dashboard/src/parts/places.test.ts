import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import {
  Controller_BackendSummarySchema,
  Controller_PeerSummarySchema,
} from "../gen/iris_fed/rpc/gen/cluster/controller_pb";
import { capacityOf, troublesOf } from "./places";

it("adds capacity up over backends, and a backend without numbers adds nothing", () => {
  const backend = (free: Record<string, bigint>, total: Record<string, bigint>) =>
    create(Controller_BackendSummarySchema, { availability: { amounts: free, totalAmounts: total } });
  const backends = [backend({ h100: 3n }, { h100: 8n, a100: 4n }), backend({ h100: 1n }, { h100: 8n })];
  expect(capacityOf([...backends, create(Controller_BackendSummarySchema, {})])).toEqual([
    { name: "a100", free: 0, total: 4 },
    { name: "h100", free: 4, total: 16 },
  ]);
});

it("finds a peer that was lost or never reached, and jobs that nobody follows", () => {
  const troubles = (fields: object) =>
    troublesOf(create(Controller_PeerSummarySchema, fields)).map(({ title }) => title);
  expect(troubles({ reachable: true })).toEqual([]);
  expect(troubles({ reachable: false })).toEqual(["Never reached"]);
  expect(troubles({ reachable: false, lastContactMs: 5n, orphans: ["/a/b"] })).toEqual([
    "Unreachable",
    "Orphans",
  ]);
});
