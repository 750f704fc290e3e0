"""What becomes of a job and its tasks when something happens to them."""

from dataclasses import replace
from typing import Any

import pytest

from iris_fed.decide import lifecycle
from iris_fed.decide.draft import Draft
from iris_fed.decide.newjob import child_of, handed_to, new_job, received_from
from iris_fed.model.constraints import Constraint, Op
from iris_fed.model.jobs import Task
from iris_fed.model.observed import AttemptEnd, Ended, EndKind, Queued, Running, Sampled
from iris_fed.model.resources import Usage
from iris_fed.model.spec import JobSpec, Submission
from iris_fed.model.states import Band, JobState, PeerStatus, TaskState

OK = AttemptEnd(EndKind.EXITED, 0)
CRASH = AttemptEnd(EndKind.EXITED, 3)
LOST = AttemptEnd(EndKind.LOST)


def fresh(replicas: int = 1, **spec: Any) -> Draft:
    submission = Submission("/alice/train", JobSpec(("true",), replicas=replicas, **spec))
    job = new_job(submission, "/alice/train", "alice", "alice@lab", 1_000)
    return Draft(job, [Task(job_uid=0, index=index, submitted_ms=1_000) for index in range(replicas)])


def start(draft: Draft, index: int = 0, at: int = 2_000) -> tuple[int, int]:
    """Place the task and see it run; returns the attempt's key."""
    attempt = lifecycle.assign(draft, index, f"u{index}.{at}", "local", "node-1", at)
    key = (index, attempt.number)
    lifecycle.on_running(draft, key, Running(attempt.attempt_uid, at + 10, "node-1", "10.0.0.1", (0,), {"web": 80}), at)
    return key


def end(draft: Draft, key: tuple[int, int], how: AttemptEnd, at: int = 3_000, started: int | None = 2_010) -> None:
    lifecycle.on_ended(draft, key, Ended(draft.attempts[key].attempt_uid, how, started, at), at, 0.0)


def told(draft: Draft) -> list[str]:
    return [event.message for event in draft.events]


def test_a_job_runs_with_its_first_task_and_succeeds_with_its_last() -> None:
    draft = fresh(2)
    first = start(draft, 0)
    assert (draft.job.state, draft.job.started_ms) == (JobState.RUNNING, 2_000)
    second = start(draft, 1)
    end(draft, first, OK)
    assert draft.job.state is JobState.RUNNING
    end(draft, second, OK, at=4_000)
    assert (draft.job.state, draft.job.exit_code, draft.job.error) == (JobState.SUCCEEDED, 0, "")
    assert draft.job.finished_ms == 4_000
    assert told(draft)[-1] == "ended SUCCEEDED"


def test_what_a_running_attempt_was_given_is_kept() -> None:
    draft = fresh()
    attempt = draft.attempts[start(draft)]
    assert (attempt.devices, attempt.ports, attempt.address, attempt.node) == ((0,), {"web": 80}, "10.0.0.1", "node-1")
    assert draft.job.backend_id == "local"
    assert draft.job.pending_reason == ""


def test_a_short_attempt_that_was_never_seen_to_run_still_tells_when_it_started() -> None:
    draft = fresh()
    lifecycle.assign(draft, 0, "u", "local", "node-1", 2_000)
    end(draft, (0, 0), OK, at=2_900, started=2_500)
    assert draft.tasks[0].started_ms == 2_500
    assert (draft.job.started_ms, draft.job.finished_ms, draft.job.state) == (2_500, 2_900, JobState.SUCCEEDED)


def test_an_attempt_that_never_ran_starts_nothing() -> None:
    draft = fresh(max_retries_failure=1)
    lifecycle.assign(draft, 0, "u", "local", "node-1", 2_000)
    end(draft, (0, 0), AttemptEnd(EndKind.NOT_STARTED, 127, message="no such program: trian"), started=None)
    assert draft.job.started_ms is None
    assert "no such program: trian" in draft.tasks[0].pending_reason


def test_a_failed_task_fails_the_job_with_its_exit_code_and_words() -> None:
    draft = fresh()
    end(draft, start(draft), CRASH)
    assert lifecycle.failing(draft)
    assert not draft.ended
    lifecycle.stop_failing(draft, 3_000)
    assert (draft.job.state, draft.job.exit_code) == (JobState.FAILED, 3)
    assert draft.job.error == "task 0 exited with code 3"


def test_the_rest_is_stopped_once_too_many_tasks_have_failed() -> None:
    draft = fresh(3)
    running, failed = start(draft, 0), start(draft, 1)
    end(draft, failed, CRASH)
    lifecycle.stop_failing(draft, 3_000)
    assert draft.job.stop_state is JobState.FAILED
    assert draft.tasks[2].state is TaskState.KILLED
    assert draft.attempts[running].kill_requested_ms == 3_000
    assert not draft.ended
    end(draft, running, AttemptEnd(EndKind.KILLED, 143, 15), at=3_500)
    assert draft.tasks[0].state is TaskState.KILLED
    assert (draft.job.state, draft.job.exit_code) == (JobState.FAILED, 3)


def test_a_job_survives_as_many_failed_tasks_as_it_says() -> None:
    draft = fresh(3, max_task_failures=1)
    keys = [start(draft, index) for index in range(3)]
    end(draft, keys[0], CRASH)
    assert not lifecycle.failing(draft)
    end(draft, keys[1], OK)
    end(draft, keys[2], OK)
    assert (draft.job.state, draft.job.exit_code) == (JobState.SUCCEEDED, 0)


def test_a_task_is_tried_again_after_a_wait_while_its_failures_are_in_budget() -> None:
    draft = fresh(max_retries_failure=1)
    end(draft, start(draft), CRASH)
    task = draft.tasks[0]
    assert (task.state, task.failure_count, task.not_before_ms) == (TaskState.PENDING, 1, 3_500)
    assert "attempt 0 exited with code 3" in task.pending_reason
    assert draft.job.state is JobState.PENDING
    assert draft.job.failure_count == 1
    second = start(draft, at=5_000)
    assert second == (0, 1)
    assert draft.job.started_ms == 2_000
    end(draft, second, CRASH)
    assert draft.tasks[0].state is TaskState.FAILED
    assert draft.tasks[0].failure_count == 2


@pytest.mark.parametrize("kind", [EndKind.PREEMPTED, EndKind.LOST, EndKind.KILLED])
def test_what_was_not_the_tasks_fault_is_charged_to_the_preemption_budget(kind: EndKind) -> None:
    draft = fresh(max_retries_failure=0, max_retries_preemption=1)
    end(draft, start(draft), AttemptEnd(kind))
    task = draft.tasks[0]
    assert (task.state, task.failure_count, task.preemption_count) == (TaskState.PENDING, 0, 1)
    assert draft.attempts[0, 0].is_worker_failure
    end(draft, start(draft, at=5_000), AttemptEnd(kind))
    assert draft.tasks[0].state is TaskState.WORKER_FAILED
    lifecycle.stop_failing(draft, 6_000)
    assert draft.job.state is JobState.WORKER_FAILED


def test_finding_no_room_is_charged_to_nobody() -> None:
    draft = fresh()
    for at in (2_000, 4_000, 6_000):
        lifecycle.assign(draft, 0, f"u{at}", "local", "node-1", at)
        end(draft, (0, draft.tasks[0].current_attempt), AttemptEnd(EndKind.NO_CAPACITY), at, started=None)
    assert draft.tasks[0].state is TaskState.PENDING
    assert (draft.job.failure_count, draft.job.preemption_count) == (0, 0)


@pytest.mark.parametrize(
    ("how", "state", "words"),
    [
        (OK, TaskState.SUCCEEDED, "succeeded"),
        (CRASH, TaskState.FAILED, "exited with code 3"),
        (AttemptEnd(EndKind.SIGNALED, 139, 11), TaskState.FAILED, "was ended by SIGSEGV"),
        (AttemptEnd(EndKind.SIGNALED, None, 99), TaskState.FAILED, "was ended by signal 99"),
        (AttemptEnd(EndKind.SIGNALED), TaskState.FAILED, "was ended by signal None"),
        (AttemptEnd(EndKind.TIMED_OUT, message="ran over 5 s"), TaskState.FAILED, "ran over 5 s"),
        (AttemptEnd(EndKind.OUT_OF_MEMORY), TaskState.FAILED, "ended: out_of_memory"),
        (AttemptEnd(EndKind.NO_CAPACITY), TaskState.WORKER_FAILED, "found no room and waits again"),
        (AttemptEnd(EndKind.PREEMPTED), TaskState.PREEMPTED, "was preempted"),
        (LOST, TaskState.WORKER_FAILED, "was lost; its exit code is unknown"),
    ],
)
def test_every_end_has_a_state_and_words(how: AttemptEnd, state: TaskState, words: str) -> None:
    draft = fresh()
    verdict = lifecycle.judge(draft, draft.attempts[start(draft)], how)
    assert (verdict.state, verdict.message) == (state, words)


def test_a_cancel_ends_what_waits_and_asks_for_the_end_of_what_runs() -> None:
    draft = fresh(2)
    key = start(draft, 0)
    lifecycle.request_cancel(draft, "bob@lab", 2_500)
    assert draft.tasks[1].state is TaskState.KILLED
    assert draft.attempts[key].kill_requested_ms == 2_500
    assert draft.queued_tasks == 0
    assert not draft.ended
    end(draft, key, AttemptEnd(EndKind.KILLED, 137, 9), at=2_700)
    assert (draft.job.state, draft.job.error) == (JobState.KILLED, "cancelled by bob@lab")


def test_a_cancelled_task_is_not_tried_again_whatever_its_budget() -> None:
    draft = fresh(max_retries_failure=5, max_retries_preemption=5)
    key = start(draft)
    lifecycle.request_cancel(draft, "bob", 2_500)
    end(draft, key, LOST)
    assert draft.tasks[0].state is TaskState.KILLED
    assert draft.job.state is JobState.KILLED


def test_a_task_that_fails_by_itself_while_it_is_being_stopped_keeps_its_own_end() -> None:
    draft = fresh(max_retries_failure=5)
    key = start(draft)
    lifecycle.request_cancel(draft, "bob", 2_500)
    end(draft, key, CRASH)
    assert (draft.tasks[0].state, draft.tasks[0].exit_code) == (TaskState.FAILED, 3)
    assert (draft.job.state, draft.job.exit_code) == (JobState.KILLED, 3)


def test_a_job_that_ended_first_keeps_its_end() -> None:
    draft = fresh()
    end(draft, start(draft), OK)
    before, events = draft.job, list(draft.events)
    lifecycle.request_cancel(draft, "bob", 9_000)
    lifecycle.request_stop(draft, JobState.FAILED, "too late", 9_000)
    assert draft.job == before
    assert draft.events == events


def test_a_task_that_exits_well_while_it_is_being_stopped_has_succeeded() -> None:
    draft = fresh()
    key = start(draft)
    lifecycle.request_cancel(draft, "bob", 2_500)
    end(draft, key, OK)
    assert draft.job.state is JobState.SUCCEEDED


def test_a_second_cancel_changes_nothing() -> None:
    draft = fresh()
    key = start(draft)
    lifecycle.request_cancel(draft, "bob", 2_500)
    once, attempt, events = draft.job, draft.attempts[key], len(draft.events)
    lifecycle.request_cancel(draft, "carol", 2_600)
    assert (draft.job, draft.attempts[key], len(draft.events)) == (once, attempt, events)


def test_a_job_that_waited_too_long_is_unschedulable_in_all_its_tasks() -> None:
    draft = fresh(2)
    lifecycle.request_stop(draft, JobState.UNSCHEDULABLE, "not started in time", 5_000)
    assert draft.job.state is JobState.UNSCHEDULABLE
    assert {task.state for task in draft.tasks.values()} == {TaskState.UNSCHEDULABLE}
    assert draft.job.exit_code is None


def test_late_and_repeated_news_of_an_attempt_changes_nothing() -> None:
    draft = fresh(max_retries_failure=3)
    key = start(draft)
    lifecycle.on_running(draft, key, Running("u", 9_999, "elsewhere"), 9_999)
    assert draft.attempts[key].node == "node-1"
    end(draft, key, CRASH)
    task, attempt, events = draft.tasks[0], draft.attempts[key], len(draft.events)
    end(draft, key, OK)
    lifecycle.on_running(draft, key, Running("u", 9_999, "elsewhere"), 9_999)
    lifecycle.on_sampled(draft, key, Sampled("u", Usage(memory_bytes=5)))
    assert (draft.tasks[0], draft.attempts[key], len(draft.events)) == (task, attempt, events)


def test_usage_is_taken_while_an_attempt_runs() -> None:
    draft = fresh()
    key = start(draft)
    lifecycle.on_sampled(draft, key, Sampled("u", Usage(memory_bytes=5)))
    assert draft.attempts[key].usage.memory_bytes == 5


def test_a_start_told_by_a_clock_ahead_of_ours_is_not_later_than_the_end() -> None:
    draft = fresh()
    attempt = lifecycle.assign(draft, 0, "u", "local", "node-1", 2_000)
    lifecycle.on_running(draft, (0, attempt.number), Running("u", 99_000, "node-1"), 2_000)
    end(draft, (0, 0), OK, at=3_000)
    assert draft.job.started_ms == 2_000
    assert draft.job.finished_ms == 3_000


def test_a_new_job_has_a_band_a_deadline_and_waiting_tasks() -> None:
    spec = JobSpec(("true",), replicas=3, scheduling_timeout_ms=500)
    job = new_job(Submission("train", spec), "/alice/train", "alice", "alice@lab", 1_000)
    assert (job.band, job.scheduling_deadline_ms, job.queued_tasks) == (Band.INTERACTIVE, 1_500, 3)
    assert new_job(Submission("x", spec, band=Band.SYSTEM), "/a/x", "a", "a", 0).band is Band.SYSTEM
    sent = handed_to(job, "lab", "n1")
    assert (sent.cluster, sent.peer_status, sent.queued_tasks) == ("lab", PeerStatus.PENDING_SCHEDULING, 0)
    assert sent.scheduling_deadline_ms is None


def test_a_received_job_has_left_its_pin_behind() -> None:
    pin, region = Constraint("cluster", Op.EQ, ("lab",)), Constraint("region", Op.EQ, ("x",))
    spec = JobSpec(("true",), constraints=(pin, region))
    job = new_job(Submission("/a/hub.x", spec), "/a/hub.x", "a", "a@lab", 0)
    received = received_from(job, "hub", "n1")
    assert received == replace(job, spec=replace(spec, constraints=(region,)), requester="hub", nonce="n1")
    assert received.demand == received.spec.demand


def test_a_child_belongs_to_whoever_its_parent_belongs_to_and_inherits_what_it_did_not_set() -> None:
    spec = JobSpec(("true",), env={"A": "1", "B": "1"}, secrets={"S": "1"})
    root = new_job(Submission("x", spec, band=Band.PRODUCTION), "/a/hub.x", "a", "a@lab", 0)
    parent = replace(received_from(root, "hub", "n1"), uid=7)
    own = new_job(Submission("y", JobSpec(("true",), env={"B": "2"}), band=Band.BATCH), "/a/hub.x/y", "t", "task", 5)
    child = child_of(parent, own, inherits_band=True)
    assert (child.parent_uid, child.user, child.submitting_user, child.requester, child.nonce) == (
        7, "a", "a@lab", "hub", "n1",
    )  # fmt: skip
    assert child.spec.env == {"A": "1", "B": "2"}
    assert child.spec.secrets == {"S": "1"}
    assert child.band is Band.PRODUCTION
    assert child_of(parent, own, inherits_band=False).band is Band.BATCH


def test_children_end_with_their_parent() -> None:
    parent = replace(fresh().job, state=JobState.FAILED)
    waiting = fresh()
    lifecycle.end_with_parent(waiting, parent, 5_000)
    assert (waiting.job.state, waiting.job.error) == (JobState.KILLED, "its parent /alice/train ended FAILED")
    running = fresh()
    key = start(running)
    lifecycle.end_with_parent(running, parent, 5_000)
    assert not running.ended
    assert running.attempts[key].kill_requested_ms == 5_000
    mirrored = Draft(handed_to(fresh().job, "lab", "n1"))
    lifecycle.end_with_parent(mirrored, parent, 5_000)
    assert (mirrored.job.state, mirrored.job.finished_ms) == (JobState.KILLED, 5_000)
    over = fresh()
    end(over, start(over), OK)
    lifecycle.end_with_parent(over, parent, 5_000)
    assert over.job.state is JobState.SUCCEEDED


def test_what_an_engines_queue_waits_for_is_told_until_it_starts() -> None:
    draft = fresh()
    attempt = lifecycle.assign(draft, 0, "u", "slurm", "", 2_000)
    lifecycle.on_queued(draft, (0, attempt.number), Queued("u", "for machines to become free"))
    reason = "waiting in the queue of slurm: for machines to become free"
    assert (draft.job.state, draft.job.pending_reason, draft.tasks[0].pending_reason) == (
        JobState.PENDING,
        reason,
        reason,
    )
    lifecycle.on_running(draft, (0, attempt.number), Running("u", 2_500, "n1"), 2_500)
    assert (draft.job.pending_reason, draft.tasks[0].pending_reason) == ("", "")
    lifecycle.on_queued(draft, (0, attempt.number), Queued("u", "late news"))
    assert draft.tasks[0].pending_reason == ""


def test_an_attempt_that_somebody_at_the_engine_cancelled_is_a_failure_in_its_words() -> None:
    draft = fresh()
    end(draft, start(draft), AttemptEnd(EndKind.CANCELLED, message="was cancelled in Slurm"))
    task = draft.tasks[0]
    assert (task.state, task.error, task.failure_count) == (TaskState.FAILED, "was cancelled in Slurm", 1)
    assert lifecycle.failing(draft)
