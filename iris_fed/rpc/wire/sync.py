"""FederationSync, both ways on both sides."""

from collections.abc import Sequence

from iris_fed.errors import InvalidArgument
from iris_fed.model import limits
from iris_fed.model.federation import Delta, ServedChanges, ServedDelta, SyncAnswer, SyncRequest
from iris_fed.model.ids import check_cluster_name, parse_job_id
from iris_fed.model.jobs import JobReport
from iris_fed.model.resources import BackendSummary
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2
from iris_fed.rpc.wire.checks import INT32_MAX, clipped, optional_word, whole
from iris_fed.rpc.wire.places import backend_to_wire, backends_from_wire
from iris_fed.rpc.wire.reports import job_report_from_wire, task_report_from_wire
from iris_fed.rpc.wire.statuses import job_to_wire, report_to_wire, task_to_wire


def sync_request_from_wire(request: Controller.FederationSyncRequest) -> SyncRequest:
    """A longer wait than we serve is cut to ours. Raises InvalidArgument."""
    check_cluster_name(request.requester_id, "requester_id")
    return SyncRequest(
        requester=request.requester_id,
        cursor=optional_word(request.cursor, limits.MAX_CURSOR_CHARS, "cursor"),
        wait_ms=min(whole(request.wait_ms, 0, 2**63 - 1, "wait_ms"), limits.MAX_LONG_POLL_MS),
        max_deltas=whole(request.max_deltas, 0, INT32_MAX, "max_deltas"),
    )


def sync_request_to_wire(request: SyncRequest) -> Controller.FederationSyncRequest:
    return Controller.FederationSyncRequest(
        requester_id=request.requester,
        cursor=request.cursor,
        wait_ms=request.wait_ms or None,
        max_deltas=request.max_deltas or None,
    )


def served_to_wire(
    changes: ServedChanges, backends: Sequence[BackendSummary] = ()
) -> Controller.FederationSyncResponse:
    """`backends` are this cluster's own, told along so that the parent's view of capacity is fresh."""
    return Controller.FederationSyncResponse(
        deltas=[_served_delta(delta) for delta in changes.deltas],
        next_cursor=changes.next_cursor,
        cursor_stale=changes.cursor_stale,
        more=changes.more,
        long_poll=True,
        backends=[backend_to_wire(backend) for backend in backends],
        database_id=changes.database_id,
    )


def _served_delta(delta: ServedDelta) -> Controller.FederationJobDelta:
    summary: job_pb2.JobStatus | None = None
    if delta.view is not None:
        summary = job_to_wire(delta.view)
    elif delta.end is not None:
        summary = report_to_wire(delta.end)
    return Controller.FederationJobDelta(
        job_id=delta.job_id,
        summary=summary,
        changed_tasks=[task_to_wire(task) for task in delta.tasks],
        tombstone=delta.tombstone,
        handoff_nonce=delta.nonce,
    )


def sync_answer_from_wire(answer: Controller.FederationSyncResponse) -> SyncAnswer:
    """Unreadable rows are left out and counted; no backends told = None.

    Raises InvalidArgument when the answer as a whole cannot be used: too many rows, or no cursor of
    a bearable length.
    """
    if len(answer.deltas) > limits.MAX_DELTAS_ACCEPTED:
        raise InvalidArgument(f"holds more than {limits.MAX_DELTAS_ACCEPTED} rows", "deltas")
    deltas, unreadable = [], 0
    for message in answer.deltas:
        try:
            deltas.append(delta_from_wire(message))
        except InvalidArgument:
            unreadable += 1
    return SyncAnswer(
        deltas=tuple(deltas),
        next_cursor=optional_word(answer.next_cursor, limits.MAX_CURSOR_CHARS, "next_cursor"),
        cursor_stale=answer.cursor_stale,
        more=answer.more,
        long_poll=answer.long_poll,
        database_id=optional_word(answer.database_id, limits.MAX_DATABASE_ID_CHARS, "database_id"),
        backends=backends_from_wire(answer.backends) if answer.backends else None,
        unreadable=unreadable,
    )


def delta_from_wire(message: Controller.FederationJobDelta) -> Delta:
    """Raises InvalidArgument when the row makes no sense."""
    job_id = str(parse_job_id(message.job_id, "job_id"))
    return Delta(
        job_id=job_id,
        nonce=optional_word(message.handoff_nonce, limits.MAX_NONCE_CHARS, "handoff_nonce"),
        tombstone=message.tombstone,
        report=_report(message, job_id),
        tasks=tuple(task_report_from_wire(task, job_id) for task in message.changed_tasks),
    )


def _report(message: Controller.FederationJobDelta, job_id: str) -> JobReport | None:
    if not message.HasField("summary"):
        if message.tombstone:
            return None
        raise InvalidArgument("a job that was not pruned has a summary", "summary")
    report = job_report_from_wire(message.summary)
    if report.job_id != job_id:
        raise InvalidArgument(f"speaks of {clipped(report.job_id, 80)!r}, the row of another job", "summary.job_id")
    return report
