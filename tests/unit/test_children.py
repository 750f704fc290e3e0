"""Children in the mirror of a handed-off root, and the start of a job that is set up first."""

from dataclasses import replace
from typing import Any

import pytest

from iris_fed.decide import lifecycle, mirror
from iris_fed.decide.draft import Draft
from iris_fed.decide.newjob import new_job
from iris_fed.model.federation import Delta, SentHandle
from iris_fed.model.jobs import Job, JobReport, Task, TaskReport
from iris_fed.model.observed import AttemptEnd, Building, Ended, EndKind, Running
from iris_fed.model.spec import JobSpec, Submission
from iris_fed.model.states import JobState, PeerStatus, TaskState

HANDLE = SentHandle(
    nonce="n", peer="lab", job_id="/a/x", remote_job_id="/a/hub.x", owner="a", submitting_user="a",
    created_ms=0, expires_ms=9_000, sent=True,
)  # fmt: skip


def root() -> Job:
    job = new_job(Submission("x", JobSpec(("true",))), "/a/x", "a", "a@lab", 1_000)
    return replace(job, uid=7, cluster="lab", nonce="n")


def report(state: JobState = JobState.RUNNING, **fields: Any) -> JobReport:
    return replace(JobReport(job_id="/a/hub.x/c", state=state, submitted_ms=2_000, task_count=2), **fields)


def child(state: JobState = JobState.RUNNING) -> Job:
    made = mirror.mirrored_child(root(), "/a/x/c", report(), 2_500)
    return replace(made, state=state, finished_ms=None if state is JobState.RUNNING else 3_000)


def test_ids_below_a_root_translate_both_ways() -> None:
    for here, there in [("/a/x", "/a/hub.x"), ("/a/x/c", "/a/hub.x/c"), ("/a/x/c/d", "/a/hub.x/c/d")]:
        assert mirror.remote_id_of(HANDLE, here) == there
        assert mirror.local_id_of(HANDLE, there) == here


def test_a_mirrored_child_belongs_to_its_root_and_has_nothing_to_start_here() -> None:
    made = child()
    assert (made.parent_uid, made.cluster, made.nonce, made.user) == (7, "lab", "n", "a")
    assert (made.submitted_ms, made.task_count, made.queued_tasks) == (2_000, 2, 0)
    assert made.peer_status is PeerStatus.ASSIGNED


@pytest.mark.parametrize(
    ("known", "told", "another"),
    [
        (JobState.RUNNING, report(), False),
        (JobState.RUNNING, report(JobState.FAILED), False),
        (JobState.FAILED, report(JobState.FAILED), False),
        (JobState.FAILED, report(JobState.PENDING), True),
        (JobState.FAILED, report(JobState.SUCCEEDED, submitted_ms=5_000), True),
        (JobState.RUNNING, report(JobState.RUNNING, submitted_ms=5_000), True),
        (JobState.RUNNING, report(submitted_ms=None), False),
    ],
)
def test_a_later_child_of_the_same_id_is_told_from_the_one_that_is_known(
    known: JobState, told: JobReport, another: bool
) -> None:
    assert mirror.is_another(child(known), told) is another


def test_a_tombstone_of_a_child_leaves_its_mirror_as_it_was() -> None:
    draft = Draft(child())
    mirror.follow_child("lab", draft, Delta(job_id="/a/hub.x/c", nonce="n", tombstone=True, report=report()), 9_000)
    assert draft.job == draft.job_before


def test_a_child_follows_its_peer_with_its_tasks() -> None:
    draft = Draft(child())
    task = TaskReport(index=1, state=TaskState.FAILED, current_attempt=0, exit_code=3, error="exited with code 3")
    told = report(JobState.FAILED, exit_code=3, error="task 1 exited with code 3", finished_ms=4_000)
    mirror.follow_child("lab", draft, Delta(job_id="/a/hub.x/c", nonce="n", report=told, tasks=(task,)), 9_000)
    assert (draft.job.state, draft.job.exit_code, draft.job.finished_ms) == (JobState.FAILED, 3, 4_000)
    assert (draft.job.peer_status, draft.tasks[1].state) == (PeerStatus.SYNCED, TaskState.FAILED)


def test_a_mirrored_child_that_ends_with_its_parent_leaves_no_task_that_seems_to_run() -> None:
    made = replace(child(), uid=8)
    tasks = [
        Task(job_uid=8, index=0, state=TaskState.RUNNING, submitted_ms=0),
        Task(job_uid=8, index=1, state=TaskState.SUCCEEDED, submitted_ms=0, finished_ms=2),
    ]
    draft = Draft(made, tasks)
    lifecycle.end_with_parent(draft, replace(root(), state=JobState.FAILED), 5_000)
    assert (draft.job.state, draft.job.error) == (JobState.KILLED, "its parent /a/x ended FAILED")
    assert [task.state for task in draft.tasks.values()] == [TaskState.KILLED, TaskState.SUCCEEDED]


def being_set_up() -> Draft:
    spec = JobSpec(("true",), setup_commands=("make",), scheduling_timeout_ms=500)
    draft = Draft(
        new_job(Submission("x", spec), "/a/x", "a", "a", 1_000), [Task(job_uid=0, index=0, submitted_ms=1_000)]
    )
    lifecycle.assign(draft, 0, "u", "local", "n", 1_100)
    lifecycle.on_building(draft, (0, 0), Building("u", 1_200, "n"), 1_200)
    return draft


def test_a_job_that_is_set_up_has_started_so_that_its_scheduling_timeout_is_over() -> None:
    draft = being_set_up()
    assert (draft.job.state, draft.job.started_ms) == (JobState.BUILDING, 1_200)
    lifecycle.on_building(draft, (0, 0), Building("u", 9_999, "elsewhere"), 9_999)
    assert draft.attempts[0, 0].node == "n"


def test_what_was_set_up_runs_and_its_own_start_counts() -> None:
    draft = being_set_up()
    lifecycle.on_running(draft, (0, 0), Running("u", 1_900, "n"), 1_900)
    assert (draft.job.state, draft.job.started_ms) == (JobState.RUNNING, 1_200)
    assert (draft.tasks[0].started_ms, draft.attempts[0, 0].started_ms) == (1_900, 1_900)
    # Told late: it never goes back.
    lifecycle.on_building(draft, (0, 0), Building("u", 1_200, "n"), 2_000)
    assert draft.attempts[0, 0].state is TaskState.RUNNING


def test_a_setup_that_fails_fails_the_task_with_its_words() -> None:
    draft = being_set_up()
    how = AttemptEnd(EndKind.EXITED, 4, message="its setup failed with exit code 4")
    lifecycle.on_ended(draft, (0, 0), Ended("u", how, 1_200, 1_500), 1_500, 0.0)
    assert (draft.tasks[0].state, draft.tasks[0].exit_code) == (TaskState.FAILED, 4)
    assert draft.tasks[0].error == "its setup failed with exit code 4"
