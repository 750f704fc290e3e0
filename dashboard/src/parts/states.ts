import { JobState, TaskState } from "../gen/iris_fed/rpc/gen/job/job_pb";

export type Tone = "wait" | "run" | "good" | "bad" | "off";

export interface Look {
  word: string;
  tone: Tone;
}

const UNKNOWN: Look = { word: "Unknown", tone: "off" };

const JOBS: Partial<Record<JobState, Look>> = {
  [JobState.PENDING]: { word: "Waiting", tone: "wait" },
  [JobState.BUILDING]: { word: "Preparing", tone: "run" },
  [JobState.RUNNING]: { word: "Running", tone: "run" },
  [JobState.SUCCEEDED]: { word: "Succeeded", tone: "good" },
  [JobState.FAILED]: { word: "Failed", tone: "bad" },
  [JobState.KILLED]: { word: "Cancelled", tone: "off" },
  [JobState.WORKER_FAILED]: { word: "Let down", tone: "bad" },
  [JobState.UNSCHEDULABLE]: { word: "No place", tone: "bad" },
};

const TASKS: Partial<Record<TaskState, Look>> = {
  [TaskState.PENDING]: { word: "Waiting", tone: "wait" },
  [TaskState.ASSIGNED]: { word: "Placed", tone: "run" },
  [TaskState.BUILDING]: { word: "Preparing", tone: "run" },
  [TaskState.RUNNING]: { word: "Running", tone: "run" },
  [TaskState.SUCCEEDED]: { word: "Succeeded", tone: "good" },
  [TaskState.FAILED]: { word: "Failed", tone: "bad" },
  [TaskState.KILLED]: { word: "Cancelled", tone: "off" },
  [TaskState.WORKER_FAILED]: { word: "Let down", tone: "bad" },
  [TaskState.UNSCHEDULABLE]: { word: "No place", tone: "bad" },
  [TaskState.PREEMPTED]: { word: "Preempted", tone: "off" },
  [TaskState.COSCHED_FAILED]: { word: "Gang ended", tone: "bad" },
  [TaskState.MISSING]: { word: "Missing", tone: "bad" },
};

export const jobLook = (state: JobState | undefined): Look => JOBS[state ?? 0] ?? UNKNOWN;
export const taskLook = (state: TaskState | undefined): Look => TASKS[state ?? 0] ?? UNKNOWN;

export function jobEnded(state: JobState | undefined): boolean {
  return state !== undefined && state >= JobState.SUCCEEDED;
}

/** What the filter offers, and the states that each choice holds, as the controller names them. */
export const STATE_GROUPS = {
  waiting: { label: "Waiting", states: "PENDING" },
  running: { label: "Running", states: "RUNNING,BUILDING" },
  succeeded: { label: "Succeeded", states: "SUCCEEDED" },
  failed: { label: "Failed", states: "FAILED,WORKER_FAILED,UNSCHEDULABLE" },
  cancelled: { label: "Cancelled", states: "KILLED" },
} as const;

export type StateGroup = keyof typeof STATE_GROUPS;

export function isStateGroup(word: string): word is StateGroup {
  return word in STATE_GROUPS;
}
