// What the page reads, and which of it news makes stale.
import { Code } from "@connectrpc/connect";
import { keepPreviousData, type QueryClient, queryOptions } from "@tanstack/react-query";
import type { Controller_JobQuery } from "../gen/iris_fed/rpc/gen/cluster/controller_pb";
import { rootOf } from "../text/paths";
import { cluster, controller } from "./clients";
import { hasCode } from "./failure";
import type { News } from "./live";

export type JobFilter = Partial<Omit<Controller_JobQuery, "$typeName" | "$unknown">>;

/** Counting every user's tasks is work for the controller: it is asked for that no more often. */
const USERS_FRESH_MS = 10_000;

export const whoAmI = queryOptions({
  queryKey: ["me"],
  queryFn: async ({ signal }) => {
    const { userId, role, displayName } = await controller.getCurrentUser({}, { signal });
    return { user: userId ?? "", role: role ?? "", displayName: displayName ?? "" };
  },
  staleTime: Number.POSITIVE_INFINITY,
});

export const clusterInfo = queryOptions({
  queryKey: ["info"],
  queryFn: ({ signal }) => cluster.getClusterInfo({}, { signal }),
  staleTime: Number.POSITIVE_INFINITY,
});

export const peers = queryOptions({
  queryKey: ["peers"],
  queryFn: async ({ signal }) => (await controller.listPeers({}, { signal })).peers,
});

export const backends = queryOptions({
  queryKey: ["backends"],
  queryFn: ({ signal }) => controller.listBackends({}, { signal }),
});

export const users = queryOptions({
  queryKey: ["users"],
  queryFn: async ({ signal }) => (await controller.listUsers({}, { signal })).users,
  staleTime: USERS_FRESH_MS,
});

export const jobs = (query: JobFilter) =>
  queryOptions({
    queryKey: ["jobs", query],
    queryFn: ({ signal }) => controller.listJobs({ query }, { signal }),
    placeholderData: keepPreviousData,
  });

export const job = (jobId: string) =>
  queryOptions({
    queryKey: ["job", rootOf(jobId), jobId, "status"],
    queryFn: ({ signal }) => controller.getJobStatus({ jobId }, { signal }),
  });

export const jobEvents = (jobId: string) =>
  queryOptions({
    queryKey: ["job", rootOf(jobId), jobId, "events"],
    queryFn: async ({ signal }) => (await cluster.listJobEvents({ jobId }, { signal })).events,
    retry: (count, error) => count < 2 && !hasCode(error, Code.PermissionDenied, Code.NotFound),
  });

export const children = (jobId: string, query: JobFilter) =>
  queryOptions({
    queryKey: ["job", rootOf(jobId), jobId, "children", query],
    queryFn: ({ signal }) => controller.listJobs({ query }, { signal }),
  });

/** Whatever is on show and concerned is read again; the rest when it is shown next. */
export function invalidate(client: QueryClient, news: News): void {
  const stale = (queryKey: readonly unknown[]) => void client.invalidateQueries({ queryKey });
  if (news.allJobs) stale(["job"]);
  else for (const root of news.roots) stale(["job", root]);
  if (news.allJobs || news.roots.length > 0) stale(["jobs"]);
  if (news.peers || news.allJobs || news.roots.length > 0) stale(["peers"]);
  if (news.backends || news.allJobs || news.roots.length > 0) stale(["backends"]);
}
