"""A job being changed: only legal changes pass, and what is counted stays right."""

from typing import Any

import pytest

from iris_fed.decide.draft import Draft
from iris_fed.errors import IllegalTransition
from iris_fed.model.jobs import Attempt, Job, Task
from iris_fed.model.spec import JobSpec
from iris_fed.model.states import TERMINAL_JOB_STATES, Band, JobState, TaskState


def draft_of(*states: TaskState, **job: Any) -> Draft:
    values: dict[str, Any] = {
        "job_id": "/alice/train",
        "user": "alice",
        "submitting_user": "alice@lab",
        "spec": JobSpec(("true",), replicas=len(states)),
        "band": Band.INTERACTIVE,
        "submitted_ms": 1,
        "task_count": len(states),
    }
    tasks = [Task(job_uid=0, index=n, state=state, submitted_ms=1) for n, state in enumerate(states)]
    return Draft(Job(**values | job), tasks)


def attempt(index: int, number: int, state: TaskState = TaskState.ASSIGNED) -> Attempt:
    return Attempt(
        job_uid=0, task_index=index, number=number, attempt_uid=f"{index}-{number}", state=state, created_ms=1
    )


def test_an_illegal_change_is_refused_and_tells_what_came_before() -> None:
    draft = draft_of(TaskState.PENDING)
    draft.note(5, "job.queued", "queued here")
    with pytest.raises(
        IllegalTransition, match="task /alice/train/0: PENDING -> RUNNING is no transition; queued here"
    ):
        draft.set_task(0, state=TaskState.RUNNING)
    assert draft.tasks[0].state is TaskState.PENDING
    assert draft.counts[TaskState.PENDING] == 1


@pytest.mark.parametrize("end", sorted(TERMINAL_JOB_STATES))
def test_a_job_that_ended_changes_its_state_no_more_here_or_on_a_peer(end: JobState) -> None:
    for draft in (draft_of(state=end), draft_of(state=end, cluster="lab", nonce="n")):
        for state in set(JobState) - {end}:
            with pytest.raises(IllegalTransition):
                draft.set_job(state=state)
        draft.set_job(state=end, pending_reason="")
        assert draft.job.state is end


def test_a_mirrored_job_follows_its_peer_past_states_that_were_never_seen() -> None:
    draft = draft_of(TaskState.PENDING, cluster="lab", nonce="n")
    draft.set_task(0, state=TaskState.RUNNING)
    draft.set_task(0, state=TaskState.PENDING)
    draft.set_task(0, state=TaskState.PREEMPTED)
    draft.set_task(0, state=TaskState.RUNNING)
    draft.set_job(state=JobState.RUNNING)
    draft.set_job(state=JobState.SUCCEEDED)
    assert draft.counts[TaskState.RUNNING] == 1
    assert draft.ended


def test_an_attempt_passes_its_own_table() -> None:
    draft = draft_of(TaskState.PENDING)
    draft.add_attempt(attempt(0, 0, TaskState.RUNNING))
    draft.set_attempt((0, 0), state=TaskState.FAILED)
    with pytest.raises(IllegalTransition, match="attempt 0 of /alice/train/0: FAILED -> RUNNING"):
        draft.set_attempt((0, 0), state=TaskState.RUNNING)


def test_an_attempt_and_a_mirrored_task_are_added_once_only() -> None:
    draft = draft_of(TaskState.PENDING)
    draft.add_attempt(attempt(0, 0))
    with pytest.raises(IllegalTransition):
        draft.add_attempt(attempt(0, 0))
    with pytest.raises(IllegalTransition):
        draft.add_task(Task(job_uid=0, index=1, submitted_ms=1))
    mirrored = draft_of(cluster="lab", nonce="n")
    mirrored.add_task(Task(job_uid=0, index=1, submitted_ms=1))
    with pytest.raises(IllegalTransition):
        mirrored.add_task(Task(job_uid=0, index=1, submitted_ms=1))
    assert mirrored.counts[TaskState.PENDING] == 1


def test_counts_speak_of_all_tasks_though_only_some_are_loaded() -> None:
    whole = draft_of(TaskState.PENDING)
    draft = Draft(whole.job, whole.tasks.values(), counts={TaskState.PENDING: 2, TaskState.SUCCEEDED: 7})
    draft.set_task(0, state=TaskState.ASSIGNED)
    assert draft.counts == {TaskState.PENDING: 1, TaskState.ASSIGNED: 1, TaskState.SUCCEEDED: 7}
    assert (draft.open_count, draft.queued_tasks) == (2, 1)


@pytest.mark.parametrize(
    "job", [{"stop_state": JobState.KILLED}, {"cluster": "lab", "nonce": "n"}, {"state": JobState.FAILED}]
)
def test_nothing_waits_for_a_place_in_a_job_that_is_stopped_over_or_elsewhere(job: dict[str, Any]) -> None:
    assert draft_of(TaskState.PENDING, **job).queued_tasks == 0
    assert draft_of(TaskState.PENDING).queued_tasks == 1


def test_the_failed_task_of_the_lowest_index_is_remembered() -> None:
    draft = draft_of(*[TaskState.RUNNING] * 3)
    draft.set_task(2, state=TaskState.FAILED, exit_code=2)
    draft.set_task(0, state=TaskState.SUCCEEDED)
    draft.set_task(1, state=TaskState.WORKER_FAILED)
    assert draft.first_failed == draft.tasks[1]
