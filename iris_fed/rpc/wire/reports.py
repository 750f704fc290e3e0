"""What a peer says of jobs, tasks and attempts, read tolerantly into reports.

A row whose id or state makes no sense raises InvalidArgument; everything else is cut or clamped.
"""

from iris_fed.errors import InvalidArgument
from iris_fed.model import limits
from iris_fed.model.ids import parse_job_id, parse_task_id
from iris_fed.model.jobs import AttemptReport, JobEvent, JobReport, TaskReport
from iris_fed.model.resources import Usage
from iris_fed.rpc.gen.irisfed import cluster_pb2
from iris_fed.rpc.gen.job import job_pb2
from iris_fed.rpc.wire.checks import INT32_MAX, clamped, clipped, told_exit_code, told_time
from iris_fed.rpc.wire.enums import JOB_STATES, TASK_STATES
from iris_fed.rpc.wire.statuses import MEBIBYTE

_MAX_PORT = 65_535
_MAX_MEBIBYTES = limits.MAX_MEMORY_BYTES // MEBIBYTE


def job_report_from_wire(status: job_pb2.JobStatus) -> JobReport:
    """Raises InvalidArgument: no legal job id, or no known state."""
    return JobReport(
        job_id=str(parse_job_id(status.job_id, "job_id")),
        state=JOB_STATES.read(status.state, "state"),
        exit_code=told_exit_code(status.exit_code) if status.HasField("exit_code") else None,
        error=clipped(status.error),
        pending_reason=clipped(status.pending_reason),
        submitted_ms=told_time(status.submitted_at),
        started_ms=told_time(status.started_at),
        finished_ms=told_time(status.finished_at),
        failure_count=clamped(status.failure_count),
        preemption_count=clamped(status.preemption_count),
        task_count=clamped(status.task_count, limits.MAX_TASKS_SHOWN),
        parent_job_id=_parent_id(status.parent_job_id),
        backend_id=clipped(status.backend_id, limits.MAX_KEY_CHARS),
        submitting_user=clipped(status.submitting_user, limits.MAX_VALUE_CHARS),
    )


def _parent_id(text: str) -> str:
    return str(parse_job_id(text, "parent_job_id")) if text else ""


def task_report_from_wire(status: job_pb2.TaskStatus, job_id: str) -> TaskReport:
    """Raises InvalidArgument: the task is not `job_id`'s, or its state is unknown."""
    owner, index = parse_task_id(status.task_id, "task_id")
    if str(owner) != job_id or index >= limits.MAX_TASKS_SHOWN:
        raise InvalidArgument(f"{status.task_id[:80]!r} is no task of {job_id[:80]!r}", "task_id")
    return TaskReport(
        index=index,
        state=TASK_STATES.read(status.state, "state"),
        current_attempt=clamped(status.current_attempt_id) if status.HasField("current_attempt_id") else -1,
        exit_code=told_exit_code(status.exit_code) if status.HasField("exit_code") else None,
        error=clipped(status.error),
        pending_reason=clipped(status.pending_reason),
        submitted_ms=told_time(status.submitted_at),
        started_ms=told_time(status.started_at),
        finished_ms=told_time(status.finished_at),
        backend_id=clipped(status.backend_id, limits.MAX_KEY_CHARS),
        address=clipped(status.worker_address, limits.MAX_VALUE_CHARS),
        ports=_ports(status),
        usage=_usage(status.resource_usage),
        attempts=_attempts(status),
    )


def _attempts(status: job_pb2.TaskStatus) -> tuple[AttemptReport, ...]:
    """The latest ones, oldest first. Two of one number make no sense."""
    by_number = {attempt.attempt_id: attempt for attempt in status.attempts}
    if len(by_number) != len(status.attempts):
        raise InvalidArgument("two attempts have one number", "attempts")
    latest = sorted(by_number)[-limits.MAX_ATTEMPTS_SHOWN :]
    return tuple(_attempt(by_number[number]) for number in latest)


def _attempt(attempt: job_pb2.TaskAttempt) -> AttemptReport:
    if attempt.attempt_id < 0:
        raise InvalidArgument("must not be negative", "attempts.attempt_id")
    return AttemptReport(
        number=attempt.attempt_id,
        attempt_uid=clipped(attempt.attempt_uid, limits.MAX_KEY_CHARS),
        state=TASK_STATES.read(attempt.state, "attempts.state"),
        node=clipped(attempt.node_name or attempt.worker_id, limits.MAX_KEY_CHARS),
        exit_code=told_exit_code(attempt.exit_code) if attempt.HasField("exit_code") else None,
        error=clipped(attempt.error),
        terminal_reason=clipped(attempt.terminal_reason),
        is_worker_failure=attempt.is_worker_failure,
        started_ms=told_time(attempt.started_at),
        finished_ms=told_time(attempt.finished_at),
    )


def _ports(status: job_pb2.TaskStatus) -> dict[str, int]:
    names = sorted(status.ports)[: limits.MAX_PORTS]
    return {clipped(name, limits.MAX_KEY_CHARS): clamped(status.ports[name], _MAX_PORT) for name in names}


def _usage(usage: job_pb2.ResourceUsage) -> Usage:
    return Usage(
        memory_bytes=clamped(usage.memory_mb, _MAX_MEBIBYTES) * MEBIBYTE,
        memory_peak_bytes=clamped(usage.memory_peak_mb, _MAX_MEBIBYTES) * MEBIBYTE,
        cpu_millicores=clamped(usage.cpu_millicores),
        process_count=clamped(usage.process_count, INT32_MAX),
        disk_bytes=clamped(usage.disk_mb, _MAX_MEBIBYTES) * MEBIBYTE,
    )


def job_events_from_wire(answer: cluster_pb2.ListJobEventsResponse) -> tuple[JobEvent, ...]:
    """What a peer tells of a job's story; of no job here yet (uid 0)."""
    return tuple(
        JobEvent(
            0,
            clamped(event.time_ms, limits.MAX_EPOCH_MS),
            clipped(event.kind, limits.MAX_KEY_CHARS),
            clipped(event.message),
            clamped(event.task_index) if event.HasField("task_index") else None,
        )
        for event in answer.events[-limits.MAX_EVENTS_SHOWN :]
    )
