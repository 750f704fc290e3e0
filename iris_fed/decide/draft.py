"""A job being changed: what it was, what it becomes, and what to tell its user.

Decisions change a draft; `store.commit` writes the difference in one transaction. Every change of
state passes the transition tables here, and nowhere else.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from iris_fed.errors import IllegalTransition
from iris_fed.model.jobs import Attempt, Job, JobEvent, Task
from iris_fed.model.states import (
    ATTEMPT_TRANSITIONS,
    JOB_TRANSITIONS,
    TASK_TRANSITIONS,
    TERMINAL_JOB_STATES,
    TERMINAL_TASK_STATES,
    JobState,
    PeerStatus,
    TaskState,
)

AttemptKey = tuple[int, int]
"""Task index and attempt number."""


class Draft:
    """`tasks` and `attempts` may be only those a decision needs; `counts` speak of all tasks.

    `first_failed` is the failed task of the lowest index, which gives the job its exit code.
    """

    def __init__(
        self,
        job: Job,
        tasks: Iterable[Task] = (),
        attempts: Iterable[Attempt] = (),
        counts: Mapping[TaskState, int] | None = None,
        first_failed: Task | None = None,
    ) -> None:
        self.job_before = job
        self.job = job
        self.tasks_before = {task.index: task for task in tasks}
        self.tasks = dict(self.tasks_before)
        self.attempts_before = {(attempt.task_index, attempt.number): attempt for attempt in attempts}
        self.attempts = dict(self.attempts_before)
        self.counts: Counter[TaskState] = Counter(
            counts if counts is not None else Counter(task.state for task in self.tasks.values())
        )
        self.first_failed = first_failed
        self.events: list[JobEvent] = []

    def set_job(self, **changes: Any) -> None:
        after = replace(self.job, **changes)
        if after.state is not self.job.state and not self._job_may_become(after.state):
            raise IllegalTransition(f"job {self.job.job_id}", self.job.state, after.state, self._history())
        self.job = after

    def set_task(self, index: int, **changes: Any) -> None:
        before = self.tasks[index]
        after = replace(before, **changes)
        if after.state is not before.state:
            if not self.mirrored and after.state not in TASK_TRANSITIONS[before.state]:
                raise IllegalTransition(f"task {self.job.job_id}/{index}", before.state, after.state, self._history())
            self.counts[before.state] -= 1
            self.counts[after.state] += 1
        self.tasks[index] = after
        failed = after.state in (TaskState.FAILED, TaskState.WORKER_FAILED, TaskState.UNSCHEDULABLE)
        if failed and (self.first_failed is None or index < self.first_failed.index):
            self.first_failed = after

    def set_attempt(self, key: AttemptKey, **changes: Any) -> None:
        before = self.attempts[key]
        after = replace(before, **changes)
        moved = after.state is not before.state and not self.mirrored
        if moved and after.state not in ATTEMPT_TRANSITIONS[before.state]:
            raise IllegalTransition(
                f"attempt {key[1]} of {self.job.job_id}/{key[0]}", before.state, after.state, self._history()
            )
        self.attempts[key] = after

    def add_task(self, task: Task) -> None:
        """A task first heard of: only a mirror learns of its tasks one by one."""
        if task.index in self.tasks or not self.mirrored:
            raise IllegalTransition(f"task {self.job.job_id}/{task.index}", "exists", "new")
        self.tasks[task.index] = task
        self.counts[task.state] += 1

    def add_attempt(self, attempt: Attempt) -> None:
        key = (attempt.task_index, attempt.number)
        if key in self.attempts:
            raise IllegalTransition(f"attempt {key[1]} of {self.job.job_id}/{key[0]}", "exists", "new")
        self.attempts[key] = attempt

    def note(self, now_ms: int, kind: str, message: str, task_index: int | None = None) -> None:
        """Record what happened, in words for the user."""
        self.events.append(JobEvent(self.job.uid, now_ms, kind, message, task_index))

    def reopen(self, message: str, now_ms: int) -> None:
        """A mirrored job that was believed lost is alive after all: the one end that is taken back."""
        if not self.mirrored or self.job.state is not JobState.WORKER_FAILED:
            raise IllegalTransition(f"job {self.job.job_id}", self.job.state, JobState.PENDING, self._history())
        self.job = replace(
            self.job,
            state=JobState.PENDING,
            error="",
            exit_code=None,
            finished_ms=None,
            peer_status=PeerStatus.ASSIGNED,
        )
        self.note(now_ms, "handoff.found", message)

    @property
    def ended(self) -> bool:
        return self.job.state in TERMINAL_JOB_STATES

    @property
    def queued_tasks(self) -> int:
        """How many tasks wait for a place here."""
        if self.mirrored or self.ended or self.job.stop_state is not None:
            return 0
        return self.counts[TaskState.PENDING]

    @property
    def open_count(self) -> int:
        return sum(count for state, count in self.counts.items() if state not in TERMINAL_TASK_STATES)

    @property
    def mirrored(self) -> bool:
        """The job runs on a peer: its states follow the peer's, which we may see only now and then."""
        return bool(self.job.cluster)

    def _job_may_become(self, state: JobState) -> bool:
        if self.mirrored:
            return self.job.state not in TERMINAL_JOB_STATES
        return state in JOB_TRANSITIONS[self.job.state]

    def _history(self) -> str:
        return "; ".join(event.message for event in self.events[-5:])
