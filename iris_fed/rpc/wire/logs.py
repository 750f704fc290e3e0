"""Reading logs: requests and batches, both ways, since a parent relays what its peer sends."""

from iris_fed.errors import InvalidArgument
from iris_fed.model import limits
from iris_fed.model.ids import is_task_id, parse_job_id, parse_task_id, task_id
from iris_fed.model.logs import LogBatch, LogPosition, LogRequest, TaskLogLine
from iris_fed.rpc.gen.irisfed import cluster_pb2
from iris_fed.rpc.wire.checks import INT32_MAX, at_most, clamped, clipped, optional_word, whole

MAX_OFFSET = 2**62
MAX_POSITIONS = 100_000


def log_request_from_wire(request: cluster_pb2.ReadLogsRequest) -> LogRequest:
    """Raises InvalidArgument, also for a position in another job's output."""
    job_id, index = _subject(request.id)
    at_most(request.positions, MAX_POSITIONS, "positions")
    attempt = whole(request.attempt_id, 0, INT32_MAX, "attempt_id") if request.HasField("attempt_id") else None
    return LogRequest(
        job_id=job_id,
        task_index=index,
        attempt=attempt,
        positions=tuple(_position(position, job_id) for position in request.positions),
        follow=request.follow,
        tail_lines=whole(request.tail_lines, 0, INT32_MAX, "tail_lines"),
        submitted_ms=request.submitted_ms if request.HasField("submitted_ms") else None,
        nonce=optional_word(request.handoff_nonce, limits.MAX_NONCE_CHARS, "handoff_nonce"),
    )


def _subject(text: str) -> tuple[str, int | None]:
    if is_task_id(text):
        job, index = parse_task_id(text, "id")
        return str(job), index
    return str(parse_job_id(text, "id")), None


def _position(position: cluster_pb2.LogPosition, job_id: str) -> LogPosition:
    job, index = parse_task_id(position.task_id, "positions.task_id")
    if str(job) != job_id:
        raise InvalidArgument(f"is a task of another job than {job_id}", "positions.task_id")
    attempt = whole(position.attempt_id, 0, INT32_MAX, "positions.attempt_id")
    return LogPosition(index, attempt, whole(position.offset, 0, MAX_OFFSET, "positions.offset"))


def log_request_to_wire(request: LogRequest) -> cluster_pb2.ReadLogsRequest:
    subject = request.job_id if request.task_index is None else task_id(request.job_id, request.task_index)
    return cluster_pb2.ReadLogsRequest(
        id=subject,
        attempt_id=request.attempt,
        positions=[
            cluster_pb2.LogPosition(
                task_id=task_id(request.job_id, position.task_index),
                attempt_id=position.attempt,
                offset=position.offset,
            )
            for position in request.positions
        ],
        follow=request.follow,
        tail_lines=request.tail_lines,
        submitted_ms=request.submitted_ms,
        handoff_nonce=request.nonce,
    )


def log_batch_to_wire(batch: LogBatch, job_id: str) -> cluster_pb2.ReadLogsResponse:
    """`job_id` is the id under which the reader knows the job."""
    return cluster_pb2.ReadLogsResponse(
        lines=[
            cluster_pb2.LogLine(
                task_id=task_id(job_id, line.task_index),
                attempt_id=line.attempt,
                offset=line.offset,
                next_offset=line.next_offset,
                time_ms=line.time_ms,
                data=line.data,
                dropped_bytes=line.dropped_bytes,
            )
            for line in batch.lines
        ],
        notice=batch.notice,
    )


def log_batch_from_wire(message: cluster_pb2.ReadLogsResponse, job_id: str) -> LogBatch:
    """What a peer sends of `job_id`, its own id of the job. Lines of anything else are left out."""
    lines = (_line(line, job_id) for line in message.lines)
    return LogBatch(tuple(line for line in lines if line is not None), clipped(message.notice))


def _line(line: cluster_pb2.LogLine, job_id: str) -> TaskLogLine | None:
    try:
        job, index = parse_task_id(line.task_id)
    except InvalidArgument:
        return None
    if str(job) != job_id or index >= limits.MAX_TASKS_SHOWN:
        return None
    return TaskLogLine(
        task_index=index,
        attempt=clamped(line.attempt_id),
        offset=clamped(line.offset, MAX_OFFSET),
        next_offset=clamped(line.next_offset, MAX_OFFSET),
        time_ms=clamped(line.time_ms, MAX_OFFSET),
        data=line.data,
        dropped_bytes=clamped(line.dropped_bytes, MAX_OFFSET),
    )
