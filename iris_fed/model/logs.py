"""Output of attempts as it crosses rooms: positions to resume from, lines, and notices."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Byte offset from which to go on in one attempt's output."""

    task_index: int
    attempt: int
    offset: int


@dataclass(frozen=True, slots=True)
class LogRequest:
    """What to read. `task_index` None = every task; `attempt` None = the current one, and with
    `follow` each later one. `tail_lines` 0 = from the beginning. `submitted_ms` or `nonce` name the
    incarnation that is meant (None, '' = whichever bears the id)."""

    job_id: str
    task_index: int | None = None
    attempt: int | None = None
    positions: tuple[LogPosition, ...] = ()
    follow: bool = False
    tail_lines: int = 0
    submitted_ms: int | None = None
    nonce: str = ""


@dataclass(frozen=True, slots=True)
class TaskLogLine:
    """One line of a task's output. `next_offset` is where to resume behind it."""

    task_index: int
    attempt: int
    offset: int
    next_offset: int
    time_ms: int
    data: bytes
    dropped_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LogBatch:
    """Lines in order of writing within each attempt; `notice` is the controller's own remark."""

    lines: tuple[TaskLogLine, ...] = ()
    notice: str = ""
