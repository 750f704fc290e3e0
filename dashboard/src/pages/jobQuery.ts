// The job list's filters as they stand in the address, and as the controller is asked.
import type { JobFilter } from "../api/queries";
import {
  Controller_SortDirection as Direction,
  Controller_JobQueryScope as Scope,
  Controller_JobSortField as Sort,
} from "../gen/iris_fed/rpc/gen/cluster/controller_pb";
import { isStateGroup, STATE_GROUPS, type StateGroup } from "../parts/states";

export const PAGE_SIZE = 50;

export const ORDERS = {
  newest: { label: "Newest first", field: Sort.DATE, direction: Direction.DESC },
  oldest: { label: "Oldest first", field: Sort.DATE, direction: Direction.ASC },
  name: { label: "By name", field: Sort.NAME, direction: Direction.ASC },
  state: { label: "By state", field: Sort.STATE, direction: Direction.ASC },
  failures: { label: "Most failures", field: Sort.FAILURES, direction: Direction.DESC },
  preemptions: { label: "Most preemptions", field: Sort.PREEMPTIONS, direction: Direction.DESC },
} as const;

export type Order = keyof typeof ORDERS;

export interface Filters {
  search: string;
  states: StateGroup[];
  user: string;
  cluster: string;
  backend: string;
  order: Order;
  children: boolean;
  /** Where the page before ended; "" = the first page. */
  after: string;
}

export function filtersOf(address: URLSearchParams): Filters {
  const order = address.get("sort") ?? "";
  return {
    search: address.get("q") ?? "",
    states: (address.get("state") ?? "").split(",").filter(isStateGroup),
    user: address.get("user") ?? "",
    cluster: address.get("cluster") ?? "",
    backend: address.get("backend") ?? "",
    order: order in ORDERS ? (order as Order) : "newest",
    children: address.get("children") === "1",
    after: address.get("after") ?? "",
  };
}

/** Only what differs from the default stands in the address. */
export function addressOf(filters: Filters): URLSearchParams {
  const entries = {
    q: filters.search,
    state: filters.states.join(","),
    user: filters.user,
    cluster: filters.cluster,
    backend: filters.backend,
    sort: filters.order === "newest" ? "" : filters.order,
    children: filters.children ? "1" : "",
    after: filters.after,
  };
  return new URLSearchParams(Object.entries(entries).filter(([, value]) => value !== ""));
}

export function isNarrowed(filters: Filters): boolean {
  const { search, states, user, cluster, backend } = filters;
  return search !== "" || states.length > 0 || user !== "" || cluster !== "" || backend !== "";
}

export function queryOf(filters: Filters): JobFilter {
  const { field, direction } = ORDERS[filters.order];
  return {
    scope: filters.children ? Scope.ALL : Scope.ROOTS,
    sortField: field,
    sortDirection: direction,
    limit: PAGE_SIZE,
    ...(filters.search && { nameFilter: filters.search }),
    ...(filters.states.length > 0 && {
      stateFilter: filters.states.map((group) => STATE_GROUPS[group].states).join(","),
    }),
    ...(filters.user && { jobIdPrefix: `/${filters.user}/` }),
    ...(filters.cluster && { cluster: filters.cluster }),
    ...(filters.backend && { backendId: filters.backend }),
    ...(filters.after && { pageToken: filters.after }),
  };
}
