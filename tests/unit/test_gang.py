"""Members of a gang run together or not at all."""

from itertools import permutations
from typing import Any

import pytest

from iris_fed.backends.base import LaunchRequest
from iris_fed.controller.launching import Launch, with_siblings
from iris_fed.decide import lifecycle
from iris_fed.decide.draft import AttemptKey, Draft
from iris_fed.decide.newjob import new_job
from iris_fed.decide.placement import Patience, Place, Plan, choose_places
from iris_fed.model.jobs import DemandQueue, Job, QueuedJob, Task
from iris_fed.model.observed import AttemptEnd, Building, Ended, EndKind, Running
from iris_fed.model.resources import BackendSummary, NodeFree, NodeShape, Resources
from iris_fed.model.spec import JobSpec, Submission
from iris_fed.model.states import JobState, TaskState

OK = AttemptEnd(EndKind.EXITED, 0)
CRASH = AttemptEnd(EndKind.EXITED, 3)
PREEMPTED = AttemptEnd(EndKind.PREEMPTED)
KILLED = AttemptEnd(EndKind.KILLED, 143, 15)
HOUR_MS = 3_600_000


def gang(replicas: int = 3, **spec: Any) -> Draft:
    submission = Submission("/a/g", JobSpec(("true",), replicas=replicas, coscheduling_group_by="rack", **spec))
    job = new_job(submission, "/a/g", "a", "a@lab", 1_000)
    return Draft(job, [Task(job_uid=0, index=index, submitted_ms=1_000) for index in range(replicas)])


def start_round(draft: Draft, at: int = 2_000) -> list[AttemptKey]:
    """Start every member that waits."""
    keys = []
    for index, task in sorted(draft.tasks.items()):
        if task.state is TaskState.PENDING:
            attempt = lifecycle.assign(draft, index, f"u{index}.{at}", "local", "n", at)
            keys.append((index, attempt.number))
            lifecycle.on_running(draft, keys[-1], Running(attempt.attempt_uid, at, "n"), at)
    return keys


def end(draft: Draft, key: AttemptKey, how: AttemptEnd, at: int = 3_000) -> None:
    lifecycle.on_ended(draft, key, Ended(draft.attempts[key].attempt_uid, how, 2_000, at), at, 0.5)
    if lifecycle.failing(draft):
        lifecycle.stop_failing(draft, at)


def states(draft: Draft) -> list[TaskState]:
    return [task.state for _, task in sorted(draft.tasks.items())]


def attempt_states(draft: Draft, keys: list[AttemptKey]) -> list[TaskState]:
    return [draft.attempts[key].state for key in keys]


def test_one_crash_ends_the_round_and_is_charged_once() -> None:
    draft = gang(max_retries_failure=1)
    keys = start_round(draft)
    end(draft, keys[1], CRASH)
    assert [draft.attempts[key].kill_requested_ms for key in keys] == [3_000, None, 3_000]
    end(draft, keys[0], KILLED, 3_100)
    end(draft, keys[2], KILLED, 3_200)
    assert attempt_states(draft, keys) == [TaskState.COSCHED_FAILED, TaskState.FAILED, TaskState.COSCHED_FAILED]
    assert states(draft) == [TaskState.PENDING] * 3
    assert (draft.job.state, draft.job.failure_count, draft.job.preemption_count) == (JobState.PENDING, 1, 0)
    assert [task.failure_count for task in draft.tasks.values()] == [0, 1, 0]
    assert all(task.not_before_ms > 3_000 for task in draft.tasks.values())


def test_the_next_round_has_new_attempts_for_all() -> None:
    draft = gang(max_retries_failure=1)
    first = start_round(draft)
    end(draft, first[0], CRASH)
    for key in first[1:]:
        end(draft, key, KILLED)
    assert start_round(draft, 9_000) == [(0, 1), (1, 1), (2, 1)]
    for key in [(0, 1), (1, 1), (2, 1)]:
        end(draft, key, OK, 9_500)
    assert (draft.job.state, draft.job.exit_code, draft.job.failure_count) == (JobState.SUCCEEDED, 0, 1)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_members_that_crash_because_another_did_are_not_charged_whatever_the_order(order: tuple[int, ...]) -> None:
    draft = gang(max_retries_failure=1)
    keys = start_round(draft)
    for index in order:
        end(draft, keys[index], CRASH)
    assert draft.job.failure_count == 1
    assert draft.tasks[order[0]].failure_count == 1
    assert states(draft) == [TaskState.PENDING] * 3


def test_a_gang_whose_budget_is_used_up_fails_and_the_rest_is_stopped() -> None:
    draft = gang(max_retries_failure=0)
    keys = start_round(draft)
    end(draft, keys[2], CRASH)
    assert (draft.job.stop_state, draft.ended) == (JobState.FAILED, False)
    end(draft, keys[0], KILLED)
    end(draft, keys[1], KILLED)
    assert states(draft) == [TaskState.KILLED, TaskState.KILLED, TaskState.FAILED]
    assert (draft.job.state, draft.job.exit_code) == (JobState.FAILED, 3)
    assert draft.job.error == "task 2 exited with code 3"


def test_no_number_of_allowed_task_failures_lets_a_gang_go_on_without_a_member() -> None:
    draft = gang(max_task_failures=2)
    keys = start_round(draft)
    end(draft, keys[0], CRASH)
    assert draft.job.stop_state is JobState.FAILED


def test_a_member_that_succeeded_stays_so_and_is_not_started_again() -> None:
    draft = gang(max_retries_failure=1)
    keys = start_round(draft)
    end(draft, keys[0], OK)
    end(draft, keys[1], CRASH)
    end(draft, keys[2], KILLED)
    assert states(draft) == [TaskState.SUCCEEDED, TaskState.PENDING, TaskState.PENDING]
    again = start_round(draft, 9_000)
    assert again == [(1, 1), (2, 1)]
    for key in again:
        end(draft, key, OK, 9_500)
    assert draft.job.state is JobState.SUCCEEDED


def test_a_member_that_exits_well_while_the_round_is_being_ended_has_succeeded() -> None:
    draft = gang(max_retries_failure=1)
    keys = start_round(draft)
    end(draft, keys[0], CRASH)
    end(draft, keys[1], OK)
    end(draft, keys[2], KILLED)
    assert states(draft) == [TaskState.PENDING, TaskState.SUCCEEDED, TaskState.PENDING]


def test_a_preempted_member_charges_the_preemption_budget_of_its_own() -> None:
    draft = gang(max_retries_preemption=1)
    keys = start_round(draft)
    end(draft, keys[1], PREEMPTED)
    end(draft, keys[0], KILLED)
    end(draft, keys[2], KILLED)
    assert (draft.job.failure_count, draft.job.preemption_count) == (0, 1)
    assert [task.preemption_count for task in draft.tasks.values()] == [0, 1, 0]
    assert states(draft) == [TaskState.PENDING] * 3
    again = start_round(draft, 9_000)
    end(draft, again[1], PREEMPTED)
    assert draft.job.stop_state is JobState.WORKER_FAILED


def test_a_round_that_ends_while_members_are_set_up_ends_them_too() -> None:
    draft = gang(2, max_retries_failure=1, setup_commands=("make",))
    for index in range(2):
        attempt = lifecycle.assign(draft, index, f"u{index}", "local", "n", 2_000)
        lifecycle.on_building(draft, (index, 0), Building(attempt.attempt_uid, 2_000, "n"), 2_000)
    end(draft, (0, 0), CRASH)
    assert draft.attempts[1, 0].kill_requested_ms == 3_000
    end(draft, (1, 0), KILLED)
    assert states(draft) == [TaskState.PENDING] * 2


def test_a_cancelled_gang_ends_as_cancelled_not_as_a_broken_round() -> None:
    draft = gang(2, max_retries_failure=1)
    keys = start_round(draft)
    end(draft, keys[0], CRASH)
    lifecycle.request_cancel(draft, "bob", 3_050)
    end(draft, keys[1], KILLED)
    assert states(draft) == [TaskState.KILLED, TaskState.KILLED]
    assert draft.job.state is JobState.KILLED


# --- placement ---


def waiting(uid: int, cpus: int, replicas: int = 1, *, together: bool = False, at: int = 0) -> Job:
    spec = JobSpec(
        ("true",), Resources(cpus * 1000, 0), replicas=replicas, coscheduling_group_by="x" if together else None
    )
    return new_job(Submission("x", spec), f"/a/{uid}", "a", "a", at).__class__(
        **{
            **{
                name: getattr(new_job(Submission("x", spec), f"/a/{uid}", "a", "a", at), name)
                for name in Job.__slots__
            },
            "uid": uid,
        }
    )
