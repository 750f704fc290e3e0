"""FederationSync, places, queries and logs on the wire."""

from typing import Any

import pytest
from google.protobuf import json_format

from iris_fed.errors import InvalidArgument
from iris_fed.model import limits
from iris_fed.model.federation import (
    Admission,
    CheckStep,
    Delta,
    PeerView,
    ServedChanges,
    ServedDelta,
    SyncAnswer,
    SyncRequest,
)
from iris_fed.model.jobs import Job, JobQuery, JobReport, JobView, Task, TaskReport, TaskView
from iris_fed.model.limits import Limits
from iris_fed.model.logs import LogBatch, LogPosition, LogRequest, TaskLogLine
from iris_fed.model.resources import Availability, BackendSummary, NodeShape
from iris_fed.model.spec import JobSpec
from iris_fed.model.states import Band, JobState, TaskState
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller, StringList
from iris_fed.rpc.gen.irisfed import cluster_pb2
from iris_fed.rpc.gen.job import job_pb2
from iris_fed.rpc.wire import logs, places, sync
from iris_fed.rpc.wire.queries import job_query_from_wire

ID = "/alice/hub.train"
H100 = BackendSummary(
    backend_id="local",
    name="local",
    kind="local",
    capabilities=("logs",),
    attributes={"device-type": ("gpu",), "zone": ("a", "b")},
    availability=Availability(17, {"h100": 3}, {"h100": 8}),
    largest_node=NodeShape(64_000, 2**40, {"h100": 8}),
    worker_count=1,
    pending_task_count=2,
    running_task_count=5,
)


def answered(message: Controller.FederationSyncResponse) -> SyncAnswer:
    return sync.sync_answer_from_wire(Controller.FederationSyncResponse.FromString(message.SerializeToString()))


def test_the_parent_hears_what_the_peer_serves() -> None:
    job = Job(
        job_id=ID, user="alice", submitting_user="a@lab", spec=JobSpec(("true",)), band=Band.BATCH,
        state=JobState.RUNNING, submitted_ms=1, task_count=1,
    )  # fmt: skip
    task = Task(job_uid=1, index=0, state=TaskState.RUNNING, submitted_ms=1)
    end = JobReport(job_id=ID + "2", state=JobState.KILLED)
    served = ServedChanges(
        deltas=(
            ServedDelta(job_id=ID, nonce="n1", view=JobView(job=job), tasks=(TaskView(job_id=ID, task=task),)),
            ServedDelta(job_id=ID + "2", nonce="n2", tombstone=True, end=end),
            ServedDelta(job_id=ID + "3", nonce="n3", tombstone=True),
        ),
        next_cursor="42.abc",
        cursor_stale=True,
        more=True,
        database_id="db",
    )
    assert answered(sync.served_to_wire(served, [H100])) == SyncAnswer(
        deltas=(
            Delta(
                job_id=ID, nonce="n1",
                report=JobReport(
                    job_id=ID, state=JobState.RUNNING, submitted_ms=1, task_count=1, submitting_user="a@lab"
                ),
                tasks=(TaskReport(index=0, state=TaskState.RUNNING, submitted_ms=1),),
            ),
            Delta(job_id=ID + "2", nonce="n2", tombstone=True, report=end),
            Delta(job_id=ID + "3", nonce="n3", tombstone=True),
        ),
        next_cursor="42.abc", cursor_stale=True, more=True, long_poll=True, database_id="db", backends=(H100,),
    )  # fmt: skip


def test_an_answer_without_our_extensions_has_none_of_them() -> None:
    answer = answered(Controller.FederationSyncResponse(next_cursor="7"))
    assert answer == SyncAnswer(deltas=(), next_cursor="7")


def row(**fields: Any) -> Controller.FederationJobDelta:
    summary = job_pb2.JobStatus(job_id=ID, state="JOB_STATE_RUNNING")
    return Controller.FederationJobDelta(**{"job_id": ID, "summary": summary, "handoff_nonce": "n", **fields})


@pytest.mark.parametrize(
    "bad",
    [
        row(job_id="train"),
        row(job_id="/alice/other"),
        row(summary=None),
        row(summary=job_pb2.JobStatus(job_id=ID)),
        row(handoff_nonce="n" * 257),
        row(changed_tasks=[job_pb2.TaskStatus(task_id="/bob/x/0", state="TASK_STATE_RUNNING")]),
    ],
)
def test_a_row_that_makes_no_sense_is_skipped_and_counted(bad: Controller.FederationJobDelta) -> None:
    answer = answered(Controller.FederationSyncResponse(deltas=[bad, row()], next_cursor="1"))
    assert ([delta.nonce for delta in answer.deltas], answer.unreadable) == (["n"], 1)


@pytest.mark.parametrize("field", ["next_cursor", "database_id"])
def test_an_answer_with_an_endless_text_is_refused(field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        answered(json_format.ParseDict({field: "x" * 10_000}, Controller.FederationSyncResponse()))
    assert caught.value.field == field


def test_a_sync_request_crosses_unchanged() -> None:
    asked = SyncRequest(requester="hub", cursor="42.abc", wait_ms=20_000, max_deltas=500)
    assert sync.sync_request_from_wire(sync.sync_request_to_wire(asked)) == asked
    plain = SyncRequest(requester="hub")
    assert sync.sync_request_from_wire(sync.sync_request_to_wire(plain)) == plain


def test_a_longer_wait_than_we_serve_is_cut() -> None:
    asked = Controller.FederationSyncRequest(requester_id="hub", wait_ms=2**62)
    assert sync.sync_request_from_wire(asked).wait_ms == limits.MAX_LONG_POLL_MS


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"requester_id": ""}, "requester_id"),
        ({"wait_ms": -1}, "wait_ms"),
        ({"max_deltas": -1}, "max_deltas"),
        ({"cursor": "x" * 513}, "cursor"),
    ],
)
def test_a_bad_sync_request_is_refused_by_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        sync.sync_request_from_wire(Controller.FederationSyncRequest(**{"requester_id": "hub", **fields}))
    assert caught.value.field == field


def test_a_backend_without_metric_or_shape_has_neither() -> None:
    plain = BackendSummary(backend_id="b", name="b", kind="slurm")
    assert places.backend_from_wire(places.backend_to_wire(plain)) == plain


@pytest.mark.parametrize(("version", "known"), [(0, True), (3, True), (4, False)])
def test_capacity_of_a_newer_version_counts_as_no_metric(version: int, known: bool) -> None:
    told = Controller.ResourceAvailability(version=version, amounts={"h100": 1})
    summary = places.backend_from_wire(Controller.BackendSummary(backend_id="b", availability=told))
    assert (summary.availability is not None) is known


def test_capacity_that_is_present_and_empty_says_that_nothing_is_free() -> None:
    message = Controller.BackendSummary(backend_id="b", availability=Controller.ResourceAvailability(version=3))
    assert places.backend_from_wire(message).availability == Availability(0, {}, {})


def test_a_peers_endless_backends_are_bounded_and_nameless_ones_left_out() -> None:
    many = [Controller.BackendSummary(backend_id=f"b{n}") for n in range(limits.MAX_BACKENDS_SHOWN + 9)]
    assert len(places.backends_from_wire([Controller.BackendSummary(), *many])) == limits.MAX_BACKENDS_SHOWN
    wide = Controller.BackendSummary(
        backend_id="b",
        advertised_attributes={f"k{n}": StringList(values=["v" * 9_999]) for n in range(limits.MAX_ATTRIBUTES + 9)},
        availability=Controller.ResourceAvailability(version=3, amounts={"h100": -4}),
    )
    summary = places.backend_from_wire(wide)
    assert len(summary.attributes) == limits.MAX_ATTRIBUTES
    assert all(len(value) == limits.MAX_VALUE_CHARS for values in summary.attributes.values() for value in values)
    assert summary.availability == Availability(0, {"h100": 0}, {})


def peer(**fields: Any) -> PeerView:
    usual: dict[str, Any] = {
        "peer_id": "lab", "address": "https://lab", "reachable": False, "last_contact_ms": None, "active_jobs": 0,
        "unreachable_since_ms": None, "backends": (), "backends_observed_ms": None, "last_error": "",
    }  # fmt: skip
    return PeerView(**{**usual, **fields})


def test_an_unreachable_peer_is_shown_with_its_last_words_and_their_age() -> None:
    shown = places.peer_to_wire(
        peer(
            last_contact_ms=5,
            unreachable_since_ms=9,
            active_jobs=2,
            backends=(H100,),
            backends_observed_ms=4,
            last_error="refused",
        )
    )
    assert (shown.peer_id, shown.controller_address, shown.reachable) == ("lab", "https://lab", False)
    assert (shown.last_contact_ms, shown.unreachable_since_ms, shown.backends_observed_ms) == (5, 9, 4)
    assert (shown.active_federated_jobs, shown.last_error) == (2, "refused")
    assert places.backends_from_wire(shown.backends) == (H100,)


def test_a_peer_never_heard_of_has_no_times() -> None:
    shown = places.peer_to_wire(peer())
    assert not any(shown.HasField(name) for name in ("last_contact_ms", "unreachable_since_ms", "last_error"))


def test_checks_and_admissions_keep_their_words() -> None:
    steps = places.check_steps_to_wire([CheckStep("dns", True, "127.0.0.1"), CheckStep("trust", False, "unknown key")])
    assert [(s.step, s.ok, s.detail) for s in steps.steps] == [
        ("dns", True, "127.0.0.1"),
        ("trust", False, "unknown key"),
    ]
    admission = Admission("lab", False, "not on the list")
    assert places.admission_from_wire(places.admission_to_wire(admission)) == admission


def query(**fields: Any) -> JobQuery:
    return job_query_from_wire(Controller.JobQuery(**fields), Limits(page_size=500))


def test_a_plain_listing_is_the_newest_hundred() -> None:
    assert query() == JobQuery(descending=True, sort="date", limit=100)


def test_a_listing_reads_every_filter() -> None:
    asked = query(
        scope="JOB_QUERY_SCOPE_CHILDREN", parent_job_id="/alice/x", name_filter="tr",
        state_filter="running, JOB_STATE_failed",
        job_id_prefix="/alice/", backend_id="local", cluster="local", sort_field="JOB_SORT_FIELD_NAME",
        offset=20, limit=9_999,
    )  # fmt: skip
    assert asked == JobQuery(
        scope="children", parent_job_id="/alice/x", name_contains="tr",
        states=frozenset({JobState.RUNNING, JobState.FAILED}), job_id_prefix="/alice/", backend_id="local",
        cluster="local", sort="name", descending=False, offset=20, limit=500,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sort", "direction", "descending"),
    [
        ("STATE", "UNSPECIFIED", False),
        ("FAILURES", "UNSPECIFIED", True),
        ("DATE", "ASC", False),
        ("NAME", "DESC", True),
    ],
)
def test_a_direction_is_obeyed_and_else_follows_from_the_field(sort: str, direction: str, descending: bool) -> None:
    asked = query(sort_field=f"JOB_SORT_FIELD_{sort}", sort_direction=f"SORT_DIRECTION_{direction}")
    assert asked.descending is descending


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"scope": 9}, "query.scope"),
        ({"scope": "JOB_QUERY_SCOPE_CHILDREN"}, "query.parent_job_id"),
        ({"parent_job_id": "x"}, "query.parent_job_id"),
        ({"sort_field": 9}, "query.sort_field"),
        ({"sort_direction": 9}, "query.sort_direction"),
        ({"state_filter": "tired"}, "query.state_filter"),
        ({"state_filter": "x" * 2_000}, "query.state_filter"),
        ({"offset": -1}, "query.offset"),
        ({"limit": -1}, "query.limit"),
        ({"name_filter": "\n"}, "query.name_filter"),
        ({"job_id_prefix": "x" * 600}, "query.job_id_prefix"),
    ],
)
def test_a_bad_listing_is_refused_by_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        query(**fields)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "request_",
    [
        LogRequest(job_id=ID),
        LogRequest(job_id=ID, task_index=3, attempt=0, follow=True, tail_lines=10),
        LogRequest(job_id=ID, positions=(LogPosition(0, 1, 17), LogPosition(1, 0, 0))),
    ],
)
def test_a_request_for_logs_crosses_unchanged(request_: LogRequest) -> None:
    assert logs.log_request_from_wire(logs.log_request_to_wire(request_)) == request_


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"id": ""}, "id"),
        ({"attempt_id": -1}, "attempt_id"),
        ({"tail_lines": -1}, "tail_lines"),
        ({"positions": [cluster_pb2.LogPosition(task_id="/bob/x/0")]}, "positions.task_id"),
        ({"positions": [cluster_pb2.LogPosition(task_id=ID + "/0", offset=-1)]}, "positions.offset"),
        ({"positions": [cluster_pb2.LogPosition(task_id=ID + "/0", attempt_id=-1)]}, "positions.attempt_id"),
    ],
)
def test_a_bad_request_for_logs_is_refused_by_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        logs.log_request_from_wire(cluster_pb2.ReadLogsRequest(**{"id": ID, **fields}))
    assert caught.value.field == field


def test_output_crosses_byte_for_byte() -> None:
    batch = LogBatch((TaskLogLine(2, 1, 10, 15, 99, b"\xff\x00ab\n", 7),), "from gpu-lab")
    assert logs.log_batch_from_wire(logs.log_batch_to_wire(batch, ID), ID) == batch


def test_lines_of_another_job_are_not_believed() -> None:
    line = TaskLogLine(0, 0, 0, 2, 1, b"x\n")
    message = logs.log_batch_to_wire(LogBatch((line,)), ID)
    message.lines.add(task_id="/bob/x/0", data=b"forged")
    message.lines.add(task_id="nonsense", data=b"forged")
    assert logs.log_batch_from_wire(message, ID).lines == (line,)
