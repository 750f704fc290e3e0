// Job ids in addresses: `/alice/train/eval` is shown at `/jobs/alice/train/eval`.

const JOBS = "/jobs";

export function jobPath(jobId: string): string {
  return `${JOBS}/${jobId.split("/").filter(Boolean).map(encodeURIComponent).join("/")}`;
}

/** The job id behind `/jobs` in a path as it stands in the address, still escaped; "" when it names none. */
export function jobIdOf(pathname: string): string {
  const parts = pathname.slice(JOBS.length).split("/").filter(Boolean);
  try {
    return parts.length < 2 ? "" : `/${parts.map(decodeURIComponent).join("/")}`;
  } catch {
    return "";
  }
}

/** `/alice/train` of `/alice/train/eval`. */
export function rootOf(jobId: string): string {
  return jobId.split("/").slice(0, 3).join("/");
}

export function userOf(jobId: string): string {
  return jobId.split("/")[1] ?? "";
}

/** A job's name without its user. */
export function shortName(jobId: string): string {
  return jobId.split("/").slice(2).join("/");
}

export function taskIndex(taskId: string): number {
  return Number(taskId.slice(taskId.lastIndexOf("/") + 1));
}
