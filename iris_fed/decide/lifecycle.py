"""What becomes of a job, its tasks and attempts when something happens to them.

Each function takes a draft and one event and changes the draft; none does I/O or knows the time.
"""

import signal
from collections.abc import Collection
from dataclasses import dataclass

from iris_fed.decide.backoff import backoff_ms
from iris_fed.decide.draft import AttemptKey, Draft
from iris_fed.decide.mirrored import end_open_tasks
from iris_fed.model.jobs import Attempt, Job
from iris_fed.model.observed import AttemptEnd, Building, Ended, EndKind, Queued, Running, Sampled
from iris_fed.model.states import (
    LIVE_TASK_STATES,
    TERMINAL_TASK_STATES,
    JobState,
    TaskState,
)

RETRY_BASE_MS = 1_000
RETRY_MAX_MS = 60_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an attempt's end means: its state, whose budget a retry is charged to, and the words."""

    state: TaskState
    charge: str
    message: str


def assign(draft: Draft, index: int, attempt_uid: str, backend_id: str, node: str, now_ms: int) -> Attempt:
    """Give a pending task its next attempt. It is not started yet: that follows the commit."""
    task = draft.tasks[index]
    attempt = Attempt(
        job_uid=draft.job.uid,
        task_index=index,
        number=task.current_attempt + 1,
        attempt_uid=attempt_uid,
        backend_id=backend_id,
        node=node,
        created_ms=now_ms,
    )
    draft.add_attempt(attempt)
    draft.set_task(
        index,
        state=TaskState.ASSIGNED,
        current_attempt=attempt.number,
        backend_id=backend_id,
        pending_reason="",
    )
    if draft.job.backend_id != backend_id or draft.job.pending_reason:
        draft.set_job(backend_id=backend_id, pending_reason="")
    return attempt


def on_queued(draft: Draft, key: AttemptKey, seen: Queued) -> None:
    """The engine has it wait in a queue of its own."""
    index, number = key
    if draft.attempts[key].state is not TaskState.ASSIGNED or draft.tasks[index].current_attempt != number:
        return
    backend_id = draft.attempts[key].backend_id
    reason = f"waiting in the queue of {backend_id}: {seen.reason}"
    draft.set_task(index, pending_reason=reason)
    if draft.job.state is JobState.PENDING and draft.job.pending_reason != reason:
        draft.set_job(pending_reason=reason)


def on_building(draft: Draft, key: AttemptKey, seen: Building, now_ms: int) -> None:
    """The attempt's setup commands run."""
    if draft.attempts[key].state is not TaskState.ASSIGNED:
        return
    _set_started(draft, key, seen, TaskState.BUILDING)
    draft.note(now_ms, "task.building", f"attempt {key[1]} is set up on {seen.node}", key[0])
    _note_start(draft, key[0], seen.started_ms, now_ms)
    roll_up(draft, now_ms)


def on_running(draft: Draft, key: AttemptKey, seen: Running, now_ms: int) -> None:
    """The attempt's process runs."""
    attempt = draft.attempts[key]
    if attempt.state in TERMINAL_TASK_STATES or attempt.state is TaskState.RUNNING:
        return
    _set_started(draft, key, seen, TaskState.RUNNING)
    draft.note(now_ms, "task.running", f"attempt {key[1]} runs on {seen.node}", key[0])
    _note_start(draft, key[0], seen.started_ms, now_ms)
    roll_up(draft, now_ms)


def on_sampled(draft: Draft, key: AttemptKey, seen: Sampled) -> None:
    if draft.attempts[key].state not in TERMINAL_TASK_STATES:
        draft.set_attempt(key, usage=seen.usage)


def on_ended(draft: Draft, key: AttemptKey, seen: Ended, now_ms: int, jitter: float) -> None:
    """The attempt is over: it succeeds, fails, or is tried again while its budget lasts."""
    attempt = draft.attempts[key]
    if attempt.state in TERMINAL_TASK_STATES:
        return
    verdict = judge(draft, attempt, seen.end)
    if attempt.started_ms is None and seen.started_ms is not None:
        _note_start(draft, key[0], seen.started_ms, now_ms)
    draft.set_attempt(
        key,
        state=verdict.state,
        exit_code=seen.end.exit_code,
        error="" if verdict.state is TaskState.SUCCEEDED else verdict.message,
        terminal_reason=seen.end.kind.value,
        is_worker_failure=verdict.charge == "preemption",
        started_ms=seen.started_ms if seen.started_ms is not None else attempt.started_ms,
        finished_ms=seen.finished_ms,
        usage=seen.usage,
    )
    draft.note(now_ms, "task.ended", f"attempt {key[1]} {verdict.message}", key[0])
    _charge(draft, key[0], verdict)
    if draft.job.stop_state is None and _may_retry(draft, key[0], verdict):
        _retry(draft, key[0], verdict, now_ms, jitter)
        if draft.job.spec.is_gang:
            _end_round(draft, now_ms)
    else:
        _finish_task(draft, key[0], verdict, seen)
    roll_up(draft, now_ms)


def judge(draft: Draft, attempt: Attempt, end: AttemptEnd) -> Verdict:
    """The meaning of an end. `charge` is failure, preemption, none, or free (again, uncounted)."""
    match end.kind:
        case EndKind.EXITED if end.exit_code == 0:
            return Verdict(TaskState.SUCCEEDED, "none", "succeeded")
        case _ if attempt.kill_requested_ms is not None and draft.job.stop_state is None:
            return Verdict(TaskState.COSCHED_FAILED, "free", "was stopped because another member of its gang ended")
        case EndKind.EXITED:
            return Verdict(TaskState.FAILED, "failure", end.message or f"exited with code {end.exit_code}")
        case _ if attempt.kill_requested_ms is not None and draft.job.stop_state is not None:
            return Verdict(TaskState.KILLED, "none", "was stopped")
        case EndKind.SIGNALED:
            return Verdict(TaskState.FAILED, "failure", f"was ended by {_signal_name(end.signal)}")
        case EndKind.TIMED_OUT | EndKind.OUT_OF_MEMORY | EndKind.NOT_STARTED | EndKind.CANCELLED:
            return Verdict(TaskState.FAILED, "failure", end.message or f"ended: {end.kind.value.lower()}")
        case EndKind.NO_CAPACITY:
            return Verdict(TaskState.WORKER_FAILED, "free", end.message or "found no room and waits again")
        case EndKind.PREEMPTED:
            return Verdict(TaskState.PREEMPTED, "preemption", end.message or "was preempted")
        case _:
            return Verdict(TaskState.WORKER_FAILED, "preemption", end.message or "was lost; its exit code is unknown")


def request_stop(draft: Draft, state: JobState, error: str, now_ms: int) -> None:
    """Start nothing more of the job, end what runs; it takes `state` once nothing is left.

    The draft must hold every open task and every live attempt.
    """
    if draft.ended:
        return
    if draft.job.stop_state is None:
        draft.set_job(stop_state=state, error=error)
    for index, task in sorted(draft.tasks.items()):
        if task.state is TaskState.PENDING:
            outcome = TaskState.UNSCHEDULABLE if state is JobState.UNSCHEDULABLE else TaskState.KILLED
            draft.set_task(index, state=outcome, error=error, pending_reason="", finished_ms=now_ms)
    for key, attempt in draft.attempts.items():
        if attempt.state in LIVE_TASK_STATES and attempt.kill_requested_ms is None:
            draft.set_attempt(key, kill_requested_ms=now_ms)
    roll_up(draft, now_ms)


def request_cancel(draft: Draft, who: str, now_ms: int) -> None:
    """A user asked for the end. A job that ended first keeps its end."""
    if draft.ended or draft.job.cancel_requested_ms is not None:
        return
    draft.set_job(cancel_requested_ms=now_ms)
    draft.note(now_ms, "job.cancelled", f"cancel requested by {who}")
    request_stop(draft, JobState.KILLED, f"cancelled by {who}", now_ms)


def end_with_parent(draft: Draft, parent: Job, now_ms: int) -> None:
    """A parent is over: so are its children. One that is mirrored ends as its peer has ended it."""
    if draft.ended:
        return
    words = f"its parent {parent.job_id} ended {parent.state.value}"
    if draft.mirrored:
        end_open_tasks(draft, TaskState.KILLED, words, now_ms)
        draft.set_job(state=JobState.KILLED, error=words, finished_ms=now_ms, pending_reason="")
        draft.note(now_ms, "job.ended", f"ended KILLED: {words}")
        return
    draft.note(now_ms, "job.stopped", words)
    request_stop(draft, JobState.KILLED, words, now_ms)


def stop_with_preempted(draft: Draft, parent: Job, now_ms: int) -> None:
    """A task of the parent was preempted, and its policy says that children do not outlive that."""
    if draft.ended:
        return
    words = f"a task of its parent {parent.job_id} was preempted"
    draft.note(now_ms, "job.stopped", words)
    request_stop(draft, JobState.KILLED, words, now_ms)


def failing(draft: Draft) -> bool:
    """Whether more tasks have failed than the job survives, so that the rest must be stopped."""
    failed = draft.counts[TaskState.FAILED] + draft.counts[TaskState.WORKER_FAILED]
    survivable = 0 if draft.job.spec.is_gang else draft.job.spec.max_task_failures
    return draft.job.stop_state is None and not draft.ended and failed > survivable


def stop_failing(draft: Draft, now_ms: int) -> None:
    """Stop a job that `failing` says is beyond hope. Same requirement as `request_stop`."""
    culprit = draft.first_failed
    state = JobState.FAILED
    error = "too many tasks failed"
    if culprit is not None:
        error = f"task {culprit.index} {culprit.error}"
        if culprit.state is TaskState.WORKER_FAILED:
            state = JobState.WORKER_FAILED
    request_stop(draft, state, error, now_ms)


def lose_unfound(draft: Draft, found: Collection[str], words: str, now_ms: int) -> None:
    """After a restore: tasks whose attempt is not among those `found` running end, and are not tried again.

    A job of which nothing runs ends as a whole, for the reason `words`; else its other tasks go on,
    as far as it survives the loss. The draft must hold every open task and its current attempt.
    """
    if draft.ended or draft.mirrored or draft.job.stop_state is not None:
        return
    kept = {key[0] for key, one in draft.attempts.items() if one.attempt_uid in found and one.state in LIVE_TASK_STATES}
    if not kept:
        draft.set_job(stop_state=JobState.WORKER_FAILED, error=words)
    for index, task in sorted(draft.tasks.items()):
        if index not in kept and task.state not in TERMINAL_TASK_STATES:
            _lose_task(draft, index, words, now_ms)
    roll_up(draft, now_ms)


def _lose_task(draft: Draft, index: int, words: str, now_ms: int) -> None:
    key = (index, draft.tasks[index].current_attempt)
    if key in draft.attempts and draft.attempts[key].state in LIVE_TASK_STATES:
        draft.set_attempt(
            key,
            state=TaskState.WORKER_FAILED,
            error=words,
            terminal_reason=EndKind.LOST.value,
            is_worker_failure=True,
            finished_ms=now_ms,
        )
        _charge(draft, index, Verdict(TaskState.WORKER_FAILED, "preemption", words))
    draft.set_task(index, state=TaskState.WORKER_FAILED, error=words, finished_ms=now_ms, pending_reason="")
    draft.note(now_ms, "task.ended", words, index)


def roll_up(draft: Draft, now_ms: int) -> None:
    """The job's state follows from its tasks'."""
    if draft.ended:
        return
    if draft.open_count == 0 and not failing(draft):
        _end_job(draft, now_ms)
        return
    counts = draft.counts
    state = JobState.PENDING
    if counts[TaskState.RUNNING]:
        state = JobState.RUNNING
    elif counts[TaskState.BUILDING]:
        state = JobState.BUILDING
    if state is not draft.job.state:
        draft.set_job(state=state)


def _set_started(draft: Draft, key: AttemptKey, seen: Building | Running, state: TaskState) -> None:
    draft.set_attempt(
        key,
        state=state,
        started_ms=seen.started_ms,
        node=seen.node,
        address=seen.address,
        devices=seen.devices,
        ports=dict(seen.ports),
    )
    waited_for = draft.tasks[key[0]].pending_reason
    if waited_for and draft.job.pending_reason == waited_for:
        draft.set_job(pending_reason="")
    draft.set_task(key[0], state=state, started_ms=seen.started_ms, exit_code=None, error="", pending_reason="")


def _end_job(draft: Draft, now_ms: int) -> None:
    counts = draft.counts
    if counts[TaskState.SUCCEEDED] == draft.job.task_count:
        state, error = JobState.SUCCEEDED, ""
    elif draft.job.stop_state is not None:
        state, error = draft.job.stop_state, draft.job.error
    else:
        state, error = JobState.SUCCEEDED, ""
    exit_code = 0 if state is JobState.SUCCEEDED else None
    if state is not JobState.SUCCEEDED and draft.first_failed is not None:
        exit_code = draft.first_failed.exit_code
    draft.set_job(state=state, error=error, exit_code=exit_code, finished_ms=now_ms, pending_reason="")
    words = f"ended {state.value}" + (f": {error}" if error else "")
    draft.note(now_ms, "job.ended", words)


def _note_start(draft: Draft, index: int, started_ms: int, now_ms: int) -> None:
    """A short attempt may be over before it was seen to run."""
    draft.set_task(index, started_ms=started_ms)
    if draft.job.started_ms is None:
        # An engine's clock may be ahead of ours.
        draft.set_job(started_ms=min(started_ms, now_ms))
        draft.note(now_ms, "job.running", "started")


def _charge(draft: Draft, index: int, verdict: Verdict) -> None:
    task = draft.tasks[index]
    if verdict.charge == "failure":
        draft.set_task(index, failure_count=task.failure_count + 1)
        draft.set_job(failure_count=draft.job.failure_count + 1)
    elif verdict.charge == "preemption":
        draft.set_task(index, preemption_count=task.preemption_count + 1)
        draft.set_job(preemption_count=draft.job.preemption_count + 1)


def _may_retry(draft: Draft, index: int, verdict: Verdict) -> bool:
    task, spec = draft.tasks[index], draft.job.spec
    if verdict.charge == "failure":
        return task.failure_count <= spec.max_retries_failure
    if verdict.charge == "preemption":
        return task.preemption_count <= spec.max_retries_preemption
    return verdict.charge == "free"


def _retry(draft: Draft, index: int, verdict: Verdict, now_ms: int, jitter: float) -> None:
    task = draft.tasks[index]
    tries = task.failure_count + task.preemption_count
    wait_ms = backoff_ms(max(tries, 1), RETRY_BASE_MS, RETRY_MAX_MS, jitter)
    reason = f"attempt {task.current_attempt} {verdict.message}; the next follows within {wait_ms / 1000:.0f} s"
    draft.set_task(index, state=TaskState.PENDING, not_before_ms=now_ms + wait_ms, pending_reason=reason)
    if not any(draft.counts[state] for state in LIVE_TASK_STATES):
        draft.set_job(pending_reason=f"task {index}: {reason}")


def _end_round(draft: Draft, now_ms: int) -> None:
    """A gang runs together or not at all: its other members are stopped, and start anew with it."""
    for key, attempt in draft.attempts.items():
        if attempt.state in LIVE_TASK_STATES and attempt.kill_requested_ms is None:
            draft.set_attempt(key, kill_requested_ms=now_ms)


def _finish_task(draft: Draft, index: int, verdict: Verdict, seen: Ended) -> None:
    state = verdict.state
    if state is TaskState.PREEMPTED:
        state = TaskState.WORKER_FAILED
    draft.set_task(
        index,
        state=state,
        exit_code=seen.end.exit_code,
        error="" if state is TaskState.SUCCEEDED else verdict.message,
        finished_ms=seen.finished_ms,
        pending_reason="",
    )


def _signal_name(number: int | None) -> str:
    try:
        return signal.Signals(number or 0).name
    except ValueError:
        return f"signal {number}"
