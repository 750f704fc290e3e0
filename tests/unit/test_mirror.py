"""What one row of a peer's feed does to the mirror of a job."""

from dataclasses import replace
from typing import Any

import pytest

from iris_fed.decide import handoff, mirror
from iris_fed.decide.draft import Draft
from iris_fed.decide.mirror import Match
from iris_fed.decide.newjob import handed_to, new_job
from iris_fed.model.federation import Delta, SentHandle
from iris_fed.model.jobs import AttemptReport, JobReport, TaskReport
from iris_fed.model.resources import Usage
from iris_fed.model.spec import JobSpec, Submission
from iris_fed.model.states import TERMINAL_JOB_STATES, JobState, PeerStatus, SentState, TaskState

REMOTE = "/a/hub.x"


def handed(**changes: Any) -> tuple[SentHandle, Draft]:
    handle = SentHandle(
        nonce="n1", peer="lab", job_id="/a/x", remote_job_id=REMOTE, owner="a", submitting_user="a@lab",
        state=SentState.HANDED_OFF, sent=True, acked_ms=1_100, created_ms=1_000, expires_ms=9_000,
    )  # fmt: skip
    spec = JobSpec(("true",), replicas=2)
    job = handed_to(new_job(Submission("x", spec), "/a/x", "a", "a@lab", 1_000), "lab", "n1")
    return replace(handle, **changes), Draft(job)


def report(state: JobState = JobState.RUNNING, **more: Any) -> JobReport:
    return JobReport(job_id=REMOTE, state=state, **more)


def row(state: JobState = JobState.RUNNING, *tasks: TaskReport, **more: Any) -> Delta:
    return Delta(job_id=REMOTE, nonce="n1", report=report(state, **more), tasks=tasks)


def task(index: int, state: TaskState, *attempts: AttemptReport, **more: Any) -> TaskReport:
    current = attempts[-1].number if attempts else -1
    return TaskReport(index=index, state=state, current_attempt=current, attempts=attempts, **more)


def tried(number: int, state: TaskState, **more: Any) -> AttemptReport:
    return AttemptReport(number=number, attempt_uid=f"r{number}", state=state, **more)


# --- whose row it is ---


def test_a_row_of_our_open_handle_is_followed() -> None:
    handle, _ = handed()
    assert mirror.match_delta(row(), handle) is Match.FOLLOW
    assert mirror.match_delta(row(), replace(handle, state=SentState.PENDING_HANDOFF)) is Match.FOLLOW


def test_a_row_that_is_nobodys_is_passed_over() -> None:
    handle, _ = handed()
    assert mirror.match_delta(row(), None) is Match.UNKNOWN
    assert mirror.match_delta(replace(row(), job_id="/a/hub.y"), handle) is Match.UNKNOWN


def test_a_peer_is_not_believed_about_what_was_never_sent_to_it() -> None:
    handle, _ = handed(sent=False, state=SentState.PENDING_HANDOFF)
    assert mirror.match_delta(row(), handle) is Match.UNKNOWN


@pytest.mark.parametrize("state", JobState)
def test_what_is_closed_here_changes_no_more_and_is_a_stray_while_alive_there(state: JobState) -> None:
    handle, _ = handed(state=SentState.CLOSED)
    expected = Match.DONE if state in TERMINAL_JOB_STATES else Match.STRAY
    assert mirror.match_delta(row(state), handle) is expected
    assert mirror.match_delta(Delta(job_id=REMOTE, nonce="n1", tombstone=True), handle) is Match.DONE


# --- following ---


def test_the_mirror_follows_job_tasks_and_attempts() -> None:
    handle, draft = handed()
    running = task(
        0,
        TaskState.RUNNING,
        tried(0, TaskState.FAILED, exit_code=3, finished_ms=1_400),
        tried(1, TaskState.RUNNING, started_ms=1_500, node="n7"),
        started_ms=1_500,
        address="10.0.0.7",
        ports={"web": 80},
        usage=Usage(memory_bytes=5),
        backend_id="h100s",
    )
    after = mirror.follow(handle, draft, row(JobState.RUNNING, running, started_ms=1_500, failure_count=1), 2_000)
    assert after == handle
    assert (draft.job.state, draft.job.started_ms, draft.job.failure_count) == (JobState.RUNNING, 1_500, 1)
    assert draft.job.peer_status is PeerStatus.SYNCED
    assert draft.tasks[0].state is TaskState.RUNNING
    assert draft.tasks[0].current_attempt == 1
    first, second = draft.attempts[0, 0], draft.attempts[0, 1]
    assert (first.state, first.exit_code, first.usage, first.address) == (TaskState.FAILED, 3, Usage(), "")
    assert (second.node, second.address, second.ports, second.usage.memory_bytes) == ("n7", "10.0.0.7", {"web": 80}, 5)
    assert first.mirrored
    assert second.mirrored
    assert draft.counts == {TaskState.RUNNING: 1}
    assert draft.queued_tasks == 0


def test_a_repeated_row_changes_nothing() -> None:
    handle, draft = handed()
    delta = row(JobState.RUNNING, task(0, TaskState.RUNNING, tried(0, TaskState.RUNNING)))
    mirror.follow(handle, draft, delta, 2_000)
    job, tasks, attempts, events = draft.job, dict(draft.tasks), dict(draft.attempts), len(draft.events)
    mirror.follow(handle, draft, delta, 3_000)
    assert (draft.job, draft.tasks, draft.attempts, len(draft.events)) == (job, tasks, attempts, events)


def test_a_task_beyond_the_jobs_replicas_is_not_believed() -> None:
    handle, draft = handed()
    mirror.follow(handle, draft, row(JobState.RUNNING, task(2, TaskState.RUNNING), task(1, TaskState.PENDING)), 2_000)
    assert set(draft.tasks) == {1}


def test_a_first_report_acknowledges_a_delivery_whose_answer_was_lost() -> None:
    handle, draft = handed(state=SentState.PENDING_HANDOFF, acked_ms=None, unanswered=True)
    after = mirror.follow(handle, draft, row(JobState.PENDING, pending_reason="queued"), 2_000)
    assert (after.state, after.acked_ms, after.unanswered) == (SentState.HANDED_OFF, 2_000, False)
    assert draft.job.pending_reason == "lab: queued"


@pytest.mark.parametrize("state", sorted(TERMINAL_JOB_STATES))
def test_an_end_there_ends_the_job_here_and_closes_the_handle(state: JobState) -> None:
    handle, draft = handed()
    after = mirror.follow(handle, draft, row(state, exit_code=7, error="boom", finished_ms=1_900), 2_000)
    assert (after.state, after.closed_ms) == (SentState.CLOSED, 2_000)
    assert (draft.job.state, draft.job.exit_code, draft.job.error) == (state, 7, "boom")
    assert (draft.job.finished_ms, draft.job.pending_reason) == (1_900, "")


def test_an_end_without_a_time_ends_now() -> None:
    handle, draft = handed()
    mirror.follow(handle, draft, row(JobState.SUCCEEDED, exit_code=0), 2_000)
    assert draft.job.finished_ms == 2_000


def test_an_exit_code_means_nothing_before_the_end() -> None:
    handle, draft = handed()
    mirror.follow(handle, draft, row(JobState.RUNNING, exit_code=3), 2_000)
    assert draft.job.exit_code is None


def test_a_cancelled_job_keeps_saying_so_until_the_peer_ends_it() -> None:
    handle, draft = handed()
    cancelled = handoff.on_cancel(handle, draft, "bob", 1_500)
    mirror.follow(cancelled, draft, row(JobState.RUNNING, pending_reason="busy"), 2_000)
    assert draft.job.pending_reason == "cancelled; lab has not confirmed it yet"
    after = mirror.follow(cancelled, draft, row(JobState.KILLED, error="cancelled by hub"), 2_100)
    assert after.state is SentState.CLOSED
    assert draft.job.state is JobState.KILLED


def test_a_job_that_ended_well_before_the_cancel_arrived_keeps_its_end() -> None:
    handle, draft = handed()
    cancelled = handoff.on_cancel(handle, draft, "bob", 1_500)
    mirror.follow(cancelled, draft, row(JobState.SUCCEEDED, exit_code=0), 2_000)
    assert draft.job.state is JobState.SUCCEEDED


@pytest.mark.parametrize("tombstone", [False, True])
def test_a_copy_that_our_own_fence_ended_fails_for_the_reason_of_the_fence(tombstone: bool) -> None:
    handle, draft = handed(refusal="it could not be handed to lab in time", cancelled_ms=1_900)
    delta = replace(row(JobState.KILLED, error="cancelled by hub"), tombstone=tombstone)
    after = mirror.follow(handle, draft, delta, 2_000)
    assert after.state is SentState.CLOSED
    assert (draft.job.state, draft.job.error) == (JobState.FAILED, "it could not be handed to lab in time")


@pytest.mark.parametrize("tombstone", [False, True])
def test_a_copy_that_ended_by_itself_before_the_fence_keeps_its_end(tombstone: bool) -> None:
    handle, draft = handed(refusal="it could not be handed to lab in time", cancelled_ms=1_900)
    mirror.follow(handle, draft, replace(row(JobState.SUCCEEDED, exit_code=0), tombstone=tombstone), 2_000)
    assert (draft.job.state, draft.job.exit_code) == (JobState.SUCCEEDED, 0)


def test_a_tombstone_with_an_end_ends_so() -> None:
    handle, draft = handed()
    delta = replace(row(JobState.FAILED, exit_code=4, error="boom"), tombstone=True)
    after = mirror.follow(handle, draft, delta, 2_000)
    assert (after.state, after.lost) == (SentState.CLOSED, False)
    assert (draft.job.state, draft.job.exit_code, draft.job.error) == (JobState.FAILED, 4, "boom")


@pytest.mark.parametrize("end", [None, report(JobState.RUNNING)])
def test_a_tombstone_without_an_end_is_lost(end: JobReport | None) -> None:
    handle, draft = handed()
    after = mirror.follow(handle, draft, Delta(job_id=REMOTE, nonce="n1", tombstone=True, report=end), 2_000)
    assert (after.state, after.lost) == (SentState.CLOSED, True)
    assert draft.job.state is JobState.WORKER_FAILED
    assert draft.job.error == "lost: lab no longer knows how this job ended"


def test_a_fence_that_the_peer_tells_of_closes_what_expired() -> None:
    handle, draft = handed(state=SentState.PENDING_HANDOFF, refusal="it could not be handed to lab in time")
    mirror.follow(handle, draft, Delta(job_id=REMOTE, nonce="n1", tombstone=True), 2_000)
    assert (draft.job.state, draft.job.error) == (JobState.FAILED, "it could not be handed to lab in time")


def test_a_row_with_tasks_only_leaves_the_job_as_it_is() -> None:
    handle, draft = handed()
    delta = Delta(job_id=REMOTE, nonce="n1", tasks=(task(0, TaskState.RUNNING),))
    assert mirror.follow(handle, draft, delta, 2_000).state is SentState.HANDED_OFF
    assert draft.job.state is JobState.PENDING
    assert draft.tasks[0].state is TaskState.RUNNING


# --- missing and lost ---


def test_a_job_that_a_full_set_lacks_is_missing_and_says_so() -> None:
    handle, draft = handed()
    after = mirror.note_missing(handle, draft, 5_000, 600_000, 5_100)
    assert (after.state, after.missing_since_ms) == (SentState.HANDED_OFF, 5_000)
    assert not draft.ended
    assert "does not show this job any more" in draft.job.pending_reason


def test_a_missing_job_is_lost_after_the_grace_and_not_before() -> None:
    handle, draft = handed(missing_since_ms=5_000)
    assert mirror.note_missing(handle, draft, 604_999, 600_000, 900_000) == handle
    assert not draft.ended
    after = mirror.note_missing(handle, draft, 605_000, 600_000, 605_100)
    assert (after.state, after.lost) == (SentState.CLOSED, True)
    assert draft.job.state is JobState.WORKER_FAILED
    assert draft.job.error.startswith("lost: lab accepted this job and no longer knows it")


def test_any_report_clears_the_mark_of_a_missing_job() -> None:
    handle, draft = handed(missing_since_ms=5_000)
    assert mirror.follow(handle, draft, row(), 6_000).missing_since_ms is None
