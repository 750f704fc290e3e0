"""States of jobs, tasks, attempts and handles, and the only changes that may happen between them.

The names are the wire's without their prefix; they are stored as text.
"""

from collections.abc import Mapping
from enum import IntEnum, StrEnum


class JobState(StrEnum):
    PENDING = "PENDING"
    BUILDING = "BUILDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    KILLED = "KILLED"
    WORKER_FAILED = "WORKER_FAILED"
    UNSCHEDULABLE = "UNSCHEDULABLE"


class TaskState(StrEnum):
    """Of a task and of one attempt at it."""

    PENDING = "PENDING"
    ASSIGNED = "ASSIGNED"
    BUILDING = "BUILDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    KILLED = "KILLED"
    WORKER_FAILED = "WORKER_FAILED"
    UNSCHEDULABLE = "UNSCHEDULABLE"
    PREEMPTED = "PREEMPTED"
    COSCHED_FAILED = "COSCHED_FAILED"
    MISSING = "MISSING"


class PeerStatus(StrEnum):
    """How far a handed-off job got, as its parent shows it."""

    NONE = "NONE"
    PENDING_SCHEDULING = "PENDING_SCHEDULING"
    ASSIGNED = "ASSIGNED"
    SYNCED = "SYNCED"
    REJECTED = "REJECTED"


class SentState(StrEnum):
    """Of a handle on the parent."""

    PENDING_HANDOFF = "PENDING_HANDOFF"
    HANDED_OFF = "HANDED_OFF"
    CLOSED = "CLOSED"


class ReceivedState(StrEnum):
    """Of a handle on the peer."""

    ADMITTED = "ADMITTED"
    FENCED = "FENCED"
    SUPERSEDED = "SUPERSEDED"
    PRUNED = "PRUNED"


class Band(IntEnum):
    """Priority, strongest first. The numbers are ours; the wire's order differs."""

    SYSTEM = 0
    PRODUCTION = 1
    INTERACTIVE = 2
    BATCH = 3


class ExistingJobPolicy(StrEnum):
    """What to do when the name is taken (wire contract, "Existing job under the same id")."""

    UNSPECIFIED = "UNSPECIFIED"
    ERROR = "ERROR"
    KEEP = "KEEP"
    RECREATE = "RECREATE"


TERMINAL_JOB_STATES = frozenset(
    {JobState.SUCCEEDED, JobState.FAILED, JobState.KILLED, JobState.WORKER_FAILED, JobState.UNSCHEDULABLE}
)
TERMINAL_TASK_STATES = frozenset(
    {
        TaskState.SUCCEEDED,
        TaskState.FAILED,
        TaskState.KILLED,
        TaskState.WORKER_FAILED,
        TaskState.UNSCHEDULABLE,
        TaskState.PREEMPTED,
        TaskState.COSCHED_FAILED,
        TaskState.MISSING,
    }
)
LIVE_TASK_STATES = frozenset({TaskState.ASSIGNED, TaskState.BUILDING, TaskState.RUNNING})
"""The task has an attempt that occupies resources."""

_JOB_ENDS = frozenset(TERMINAL_JOB_STATES)
_TASK_ENDS = frozenset(TERMINAL_TASK_STATES - {TaskState.PREEMPTED, TaskState.MISSING})

JOB_TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    JobState.PENDING: _JOB_ENDS | {JobState.BUILDING, JobState.RUNNING},
    JobState.BUILDING: _JOB_ENDS | {JobState.RUNNING, JobState.PENDING},
    JobState.RUNNING: _JOB_ENDS | {JobState.PENDING, JobState.BUILDING},
    **{end: frozenset[JobState]() for end in TERMINAL_JOB_STATES},
}
"""A running job whose every task waits for its next attempt is PENDING again."""

TASK_TRANSITIONS: Mapping[TaskState, frozenset[TaskState]] = {
    TaskState.PENDING: _TASK_ENDS | {TaskState.ASSIGNED},
    TaskState.ASSIGNED: _TASK_ENDS | {TaskState.BUILDING, TaskState.RUNNING, TaskState.PENDING},
    TaskState.BUILDING: _TASK_ENDS | {TaskState.RUNNING, TaskState.PENDING},
    TaskState.RUNNING: _TASK_ENDS | {TaskState.PENDING},
    **{end: frozenset[TaskState]() for end in TERMINAL_TASK_STATES},
}
"""Back to PENDING is a retry: the attempt ended, the task goes on with the next."""

ATTEMPT_TRANSITIONS: Mapping[TaskState, frozenset[TaskState]] = {
    TaskState.ASSIGNED: TERMINAL_TASK_STATES | {TaskState.BUILDING, TaskState.RUNNING},
    TaskState.BUILDING: TERMINAL_TASK_STATES | {TaskState.RUNNING},
    TaskState.RUNNING: frozenset(TERMINAL_TASK_STATES),
    **{end: frozenset[TaskState]() for end in TERMINAL_TASK_STATES},
}

SENT_TRANSITIONS: Mapping[SentState, frozenset[SentState]] = {
    SentState.PENDING_HANDOFF: frozenset({SentState.HANDED_OFF, SentState.CLOSED}),
    SentState.HANDED_OFF: frozenset({SentState.CLOSED}),
    SentState.CLOSED: frozenset(),
}

RECEIVED_TRANSITIONS: Mapping[ReceivedState, frozenset[ReceivedState]] = {
    ReceivedState.ADMITTED: frozenset({ReceivedState.SUPERSEDED, ReceivedState.PRUNED}),
    ReceivedState.PRUNED: frozenset({ReceivedState.SUPERSEDED}),
    ReceivedState.FENCED: frozenset(),
    ReceivedState.SUPERSEDED: frozenset(),
}


def job_ended(state: JobState) -> bool:
    return state in TERMINAL_JOB_STATES


def task_ended(state: TaskState) -> bool:
    return state in TERMINAL_TASK_STATES
