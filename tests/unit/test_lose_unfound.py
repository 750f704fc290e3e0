"""What a restored database gives up: all that is not found running."""

from iris_fed.decide import lifecycle
from iris_fed.decide.draft import Draft
from iris_fed.model.states import JobState, TaskState
from tests.unit.test_lifecycle import CRASH, OK, end, fresh, start, told

WORDS = "lost: it may have run since"


def lose(draft: Draft, *found: str) -> None:
    lifecycle.lose_unfound(draft, found, WORDS, 9_000)


def test_a_job_of_which_nothing_runs_is_lost_however_many_failures_it_would_survive() -> None:
    draft = fresh(3, max_task_failures=3)
    end(draft, start(draft, 0), OK)
    key = start(draft, 1)
    lose(draft)
    assert (draft.job.state, draft.job.error, draft.job.finished_ms) == (JobState.WORKER_FAILED, WORDS, 9_000)
    assert [task.state for task in draft.tasks.values()] == [
        TaskState.SUCCEEDED,
        TaskState.WORKER_FAILED,
        TaskState.WORKER_FAILED,
    ]
    attempt = draft.attempts[key]
    assert (attempt.state, attempt.error, attempt.terminal_reason) == (TaskState.WORKER_FAILED, WORDS, "LOST")
    assert [task.preemption_count for task in draft.tasks.values()] == [0, 1, 0]
    assert told(draft)[-1] == f"ended WORKER_FAILED: {WORDS}"


def test_what_is_found_goes_on_beside_what_is_lost() -> None:
    draft = fresh(2, max_task_failures=1)
    key = start(draft, 0)
    lose(draft, draft.attempts[key].attempt_uid)
    assert (draft.job.state, draft.tasks[1].state) == (JobState.RUNNING, TaskState.WORKER_FAILED)
    end(draft, key, OK)
    assert draft.job.state is JobState.SUCCEEDED


def test_a_task_that_waits_for_its_next_try_is_lost() -> None:
    draft = fresh(max_retries_failure=1)
    key = start(draft)
    end(draft, key, CRASH)
    assert draft.tasks[0].state is TaskState.PENDING
    lose(draft, draft.attempts[key].attempt_uid)
    assert (draft.tasks[0].state, draft.tasks[0].error, draft.tasks[0].pending_reason) == (
        TaskState.WORKER_FAILED,
        WORDS,
        "",
    )
    assert draft.attempts[key].state is TaskState.FAILED, "how it ended is known"


def test_a_job_that_is_over_or_is_being_stopped_keeps_its_end() -> None:
    over, stopping = fresh(), fresh()
    end(over, start(over), OK)
    key = start(stopping)
    lifecycle.request_cancel(stopping, "alice", 5_000)
    lose(over)
    lose(stopping)
    assert over.job.state is JobState.SUCCEEDED
    assert (stopping.attempts[key].state, stopping.job.stop_state) == (TaskState.RUNNING, JobState.KILLED)
