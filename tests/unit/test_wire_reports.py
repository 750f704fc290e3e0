"""Statuses: what a mirror gets of what its peer shows, and what it makes of nonsense."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iris_fed.errors import InvalidArgument
from iris_fed.model.jobs import (
    Attempt,
    AttemptReport,
    Job,
    JobEvent,
    JobPage,
    JobReport,
    JobView,
    Task,
    TaskReport,
    TaskView,
)
from iris_fed.model.limits import MAX_ATTEMPTS_SHOWN, MAX_ERROR_CHARS, MAX_TASKS_SHOWN
from iris_fed.model.resources import Resources, Usage
from iris_fed.model.spec import JobSpec
from iris_fed.model.states import Band, JobState, PeerStatus, TaskState
from iris_fed.rpc.gen.job import job_pb2
from iris_fed.rpc.gen.time import time_pb2
from iris_fed.rpc.wire.reports import job_report_from_wire, task_report_from_wire
from iris_fed.rpc.wire.statuses import (
    job_events_to_wire,
    job_page_to_wire,
    job_states_to_wire,
    job_to_wire,
    report_to_wire,
    task_to_wire,
)

ID = "/alice/hub.train"


def job(**fields: Any) -> Job:
    usual: dict[str, Any] = {
        "job_id": ID, "user": "alice", "submitting_user": "a@lab", "band": Band.INTERACTIVE, "submitted_ms": 1_000,
        "task_count": 2, "spec": JobSpec(("true",), resources=Resources(cpu_millicores=500)),
    }  # fmt: skip
    return Job(**{**usual, **fields})


def told(status: job_pb2.JobStatus) -> JobReport:
    return job_report_from_wire(job_pb2.JobStatus.FromString(status.SerializeToString()))


def task_told(status: job_pb2.TaskStatus, job_id: str = ID) -> TaskReport:
    return task_report_from_wire(job_pb2.TaskStatus.FromString(status.SerializeToString()), job_id)


@pytest.mark.parametrize("state", JobState)
def test_a_mirror_gets_what_the_peer_shows_of_a_job(state: JobState) -> None:
    shown = job(
        state=state, exit_code=3, error="exit 3", pending_reason="waits", started_ms=2_000, finished_ms=3_000,
        failure_count=1, preemption_count=2, backend_id="local",
    )  # fmt: skip
    assert told(job_to_wire(JobView(job=shown, parent_job_id="/alice/hub"))) == JobReport(
        job_id=ID, state=state, exit_code=3, error="exit 3", pending_reason="waits", submitted_ms=1_000,
        started_ms=2_000, finished_ms=3_000, failure_count=1, preemption_count=2, task_count=2,
        parent_job_id="/alice/hub", backend_id="local", submitting_user="a@lab",
    )  # fmt: skip


def test_what_is_not_known_stays_unknown_on_the_way() -> None:
    assert told(job_to_wire(JobView(job=job()))) == JobReport(
        job_id=ID, state=JobState.PENDING, submitted_ms=1_000, task_count=2, submitting_user="a@lab"
    )


def test_a_job_is_shown_with_its_counts_and_its_place() -> None:
    view = JobView(
        job=job(cluster="gpu-lab", peer_status=PeerStatus.SYNCED),
        task_counts={"SUCCEEDED": 1, "KILLED": 2, "RUNNING": 4},
        has_children=True,
    )
    status = job_to_wire(view)
    assert (status.name, status.cluster, status.has_children) == ("hub.train", "gpu-lab", True)
    assert status.peer_status == job_pb2.PEER_STATUS_SYNCED
    assert (dict(status.task_state_counts), status.completed_count) == (dict(view.task_counts), 3)
    assert status.resources.cpu_millicores == 500


def test_the_end_of_a_pruned_job_crosses_as_a_report() -> None:
    report = JobReport(job_id=ID, state=JobState.FAILED, exit_code=9, error="gone", finished_ms=7, task_count=1)
    assert told(report_to_wire(report)) == report


@pytest.mark.parametrize("state", TaskState)
def test_a_mirror_gets_what_the_peer_shows_of_a_task(state: TaskState) -> None:
    task = Task(
        job_uid=1, index=4, state=state, current_attempt=1, exit_code=7, error="e", submitted_ms=1, started_ms=2,
        finished_ms=3, backend_id="local",
    )  # fmt: skip
    first = Attempt(job_uid=1, task_index=4, number=0, attempt_uid="u0", state=TaskState.FAILED, created_ms=1)
    second = Attempt(
        job_uid=1, task_index=4, number=1, attempt_uid="u1", state=state, node="n1", address="10.0.0.1",
        ports={"http": 8080}, exit_code=7, error="e", terminal_reason="exit", is_worker_failure=True, created_ms=1,
        started_ms=2, finished_ms=3, usage=Usage(memory_bytes=2**20, memory_peak_bytes=2**21, process_count=3),
    )  # fmt: skip
    assert task_told(task_to_wire(TaskView(job_id=ID, task=task, attempts=(first, second)))) == TaskReport(
        index=4, state=state, current_attempt=1, exit_code=7, error="e", submitted_ms=1, started_ms=2, finished_ms=3,
        backend_id="local", address="10.0.0.1", ports={"http": 8080},
        usage=Usage(memory_bytes=2**20, memory_peak_bytes=2**21, process_count=3),
        attempts=(
            AttemptReport(number=0, attempt_uid="u0", state=TaskState.FAILED),
            AttemptReport(
                number=1, attempt_uid="u1", state=state, node="n1", exit_code=7, error="e", terminal_reason="exit",
                is_worker_failure=True, started_ms=2, finished_ms=3,
            ),
        ),
    )  # fmt: skip


def test_a_task_that_never_started_has_no_attempt() -> None:
    task = Task(job_uid=1, index=0, submitted_ms=5)
    assert task_told(task_to_wire(TaskView(job_id=ID, task=task))) == TaskReport(
        index=0, state=TaskState.PENDING, submitted_ms=5
    )


def test_a_little_memory_does_not_show_as_none() -> None:
    attempt = Attempt(job_uid=1, task_index=0, number=0, attempt_uid="u", created_ms=1, usage=Usage(memory_bytes=1))
    view = TaskView(job_id=ID, task=Task(job_uid=1, index=0, submitted_ms=5), attempts=(attempt,))
    assert task_to_wire(view).resource_usage.memory_mb == 1


def status(**fields: Any) -> job_pb2.JobStatus:
    return job_pb2.JobStatus(**{"job_id": ID, "state": "JOB_STATE_RUNNING", **fields})


def test_a_peers_long_text_is_cut() -> None:
    report = told(status(error="e" * 10**6, pending_reason="p" * MAX_ERROR_CHARS))
    assert (len(report.error), report.error[-1]) == (MAX_ERROR_CHARS, "…")
    assert report.pending_reason == "p" * MAX_ERROR_CHARS


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (255, 255), (-9, 137), (-(2**31), 255), (2**31 - 1, 255)])
def test_a_peers_exit_code_becomes_one(code: int, expected: int) -> None:
    assert told(status(exit_code=code)).exit_code == expected


def test_a_peers_negative_counts_and_times_out_of_any_calendar_are_not_believed() -> None:
    never = time_pb2.Timestamp(epoch_ms=2**62)
    report = told(status(failure_count=-5, task_count=2**31 - 1, started_at=never, finished_at=time_pb2.Timestamp()))
    assert (report.failure_count, report.task_count) == (0, MAX_TASKS_SHOWN)
    assert (report.started_ms, report.finished_ms) == (None, None)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"job_id": "train"}, "job_id"),
        ({"state": 0}, "state"),
        ({"state": 99}, "state"),
        ({"parent_job_id": "x"}, "parent_job_id"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused_by_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        told(status(**fields))
    assert caught.value.field == field


def task_status(**fields: Any) -> job_pb2.TaskStatus:
    return job_pb2.TaskStatus(**{"task_id": ID + "/0", "state": "TASK_STATE_RUNNING", **fields})


def attempt(number: int, state: int = job_pb2.TASK_STATE_FAILED) -> job_pb2.TaskAttempt:
    message = job_pb2.TaskAttempt(attempt_id=number)
    message.state = state  # type: ignore[assignment]
    return message


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"task_id": "/alice/other/0"}, "task_id"),
        ({"task_id": ID}, "task_id"),
        ({"task_id": f"{ID}/{MAX_TASKS_SHOWN}"}, "task_id"),
        ({"state": 0}, "state"),
        ({"attempts": [attempt(0), attempt(0)]}, "attempts"),
        ({"attempts": [attempt(-1)]}, "attempts.attempt_id"),
        ({"attempts": [attempt(0, 77)]}, "attempts.state"),
    ],
)
def test_a_task_that_makes_no_sense_is_refused_by_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        task_told(task_status(**fields))
    assert caught.value.field == field


def test_of_very_many_attempts_the_latest_are_kept_in_order() -> None:
    numbers = list(range(MAX_ATTEMPTS_SHOWN + 5))
    report = task_told(task_status(attempts=[attempt(number) for number in reversed(numbers)]))
    assert [kept.number for kept in report.attempts] == numbers[5:]


@settings(max_examples=200, deadline=None)
@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1), st.text(max_size=5))
def test_whatever_numbers_a_peer_tells_the_report_is_within_bounds(small: int, big: int, text: str) -> None:
    usage = job_pb2.ResourceUsage(
        memory_mb=big, disk_mb=big, cpu_millicores=small, memory_peak_mb=big, process_count=small
    )
    report = task_told(
        task_status(
            exit_code=small, current_attempt_id=small, ports={text: small}, resource_usage=usage,
            submitted_at=time_pb2.Timestamp(epoch_ms=big),
        )
    )  # fmt: skip
    assert report.exit_code is not None
    assert 0 <= report.exit_code <= 255
    assert all(0 <= port <= 65_535 for port in report.ports.values())
    assert 0 <= report.usage.memory_bytes < 2**63
    assert 0 <= report.usage.disk_bytes < 2**63
    assert report.current_attempt >= 0
    assert report.submitted_ms is None or 0 < report.submitted_ms < 2**53


def test_a_page_tells_its_total_and_whether_there_is_more() -> None:
    page = job_page_to_wire(JobPage((JobView(job=job()),), 2**40, True))
    assert ([shown.job_id for shown in page.jobs], page.total_count, page.has_more) == ([ID], 2**31 - 1, True)


def test_states_and_events_keep_their_meaning() -> None:
    assert dict(job_states_to_wire({ID: JobState.KILLED}).states) == {ID: job_pb2.JOB_STATE_KILLED}
    shown = job_events_to_wire([JobEvent(1, 5, "task.ended", "exit 0", 3), JobEvent(1, 6, "job.ended", "done")]).events
    assert [(event.time_ms, event.kind, event.message) for event in shown] == [
        (5, "task.ended", "exit 0"),
        (6, "job.ended", "done"),
    ]
    assert (shown[0].task_index, shown[1].HasField("task_index")) == (3, False)
