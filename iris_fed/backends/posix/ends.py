"""A keeper's records of ends and usage, as the backends' values. Pure."""

from iris_fed.backends.base import AttemptEnd, Ended, EndKind
from iris_fed.backends.posix.files import Record
from iris_fed.model.resources import Usage


def parse_end(uid: str, record: Record) -> Ended:
    """The content of `exit.json`."""
    end = AttemptEnd(EndKind(record["kind"]), record["exit_code"], record["signal"], record["message"])
    return Ended(uid, end, record["started_ms"], record["finished_ms"], parse_usage(record["usage"]))


def parse_usage(record: Record) -> Usage:
    return Usage(**record)


def unseen_end(end: AttemptEnd, started_ms: int | None, finished_ms: int) -> Record:
    """The `exit.json` of an attempt whose end no launcher saw."""
    return {
        "kind": end.kind.value,
        "exit_code": end.exit_code,
        "signal": end.signal,
        "message": end.message,
        "started_ms": started_ms,
        "finished_ms": finished_ms,
        "usage": {},
    }
