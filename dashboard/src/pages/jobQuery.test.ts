import { expect, it } from "vitest";
import { addressOf, filtersOf, isNarrowed, queryOf } from "./jobQuery";

const asked = (address: string) => queryOf(filtersOf(new URLSearchParams(address)));

it("keeps every filter in the address and nothing else", () => {
  const address =
    "q=llm&state=waiting%2Cfailed&user=alice&cluster=lab&backend=gpu&sort=oldest&children=1&after=t";
  expect(addressOf(filtersOf(new URLSearchParams(address))).toString()).toBe(address);
  expect(addressOf(filtersOf(new URLSearchParams("sort=newest&noise=1"))).toString()).toBe("");
});

it("asks the controller in its own words", () => {
  expect(asked("q=llm&state=failed,running&user=alice&cluster=local&after=t")).toMatchObject({
    nameFilter: "llm",
    stateFilter: "FAILED,WORKER_FAILED,UNSCHEDULABLE,RUNNING,BUILDING",
    jobIdPrefix: "/alice/",
    cluster: "local",
    pageToken: "t",
  });
  expect(Object.keys(asked("")).sort()).toEqual(["limit", "scope", "sortDirection", "sortField"]);
});

it("takes an address with unknown words for one without them", () => {
  expect(asked("state=nonsense&sort=sideways")).toEqual(asked(""));
  expect(isNarrowed(filtersOf(new URLSearchParams("state=nonsense&children=1")))).toBe(false);
  expect(isNarrowed(filtersOf(new URLSearchParams("user=alice")))).toBe(true);
});
