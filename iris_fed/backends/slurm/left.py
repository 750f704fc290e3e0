"""What a keeper left in an attempt's place, checked: the task itself may write there. Pure.

Everything here raises KeyError, TypeError, ValueError or AttributeError for what no keeper wrote.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from iris_fed.backends.base import Building, Ended, EndKind, Running
from iris_fed.backends.posix.ends import parse_end
from iris_fed.backends.posix.files import Record
from iris_fed.backends.slurm.verdict import TOLD
from iris_fed.model.limits import MAX_DEVICE_COUNT, MAX_EPOCH_MS, MAX_ERROR_CHARS, MAX_PORTS
from iris_fed.model.resources import Usage

_MAX_CHARS = 256
_MAX_USAGE = 2**60
_KINDS = frozenset({"EXITED", "SIGNALED", "NOT_STARTED", "LOST", "TIMED_OUT", "OUT_OF_MEMORY"})
"""What a keeper may say. The others are for Slurm and ourselves to say, and cost the task nothing."""


def result(uid: str, record: Record, told: bool) -> tuple[Ended, bool]:
    """How it ended by its own word, and whether it was told to."""
    kind, message = record["kind"], text(record["message"], MAX_ERROR_CHARS)
    if kind == TOLD:
        kind, told = (EndKind.EXITED if record["signal"] is None else EndKind.SIGNALED).value, True
        message = "was told to end"
    elif kind not in _KINDS:
        raise ValueError(kind)
    elif record["exit_code"] == 0:
        # It ended by itself just before.
        told = False
    checked = {
        "kind": kind,
        "message": message,
        "exit_code": _maybe(record["exit_code"], 255),
        "signal": _maybe(record["signal"], 64),
        "started_ms": _maybe(record["started_ms"], MAX_EPOCH_MS),
        "finished_ms": _number(record["finished_ms"], MAX_EPOCH_MS),
        "usage": _measures(record["usage"]),
    }
    return parse_end(uid, checked), told


def runs(uid: str, place: Record | None, process: Record | None) -> Building | Running | None:
    """None = it does not, so far."""
    if place is None or process is None:
        return None
    devices = [_number(index, 4 * MAX_DEVICE_COUNT) for index in place["devices"][:MAX_DEVICE_COUNT]]
    named = list(place["ports"].items())[:MAX_PORTS]
    ports = {text(name, _MAX_CHARS): _number(port, 65_535) for name, port in named}
    node, address = text(place["node"], _MAX_CHARS), text(place["address"], _MAX_CHARS)
    kind = Building if process.get("building") else Running
    return kind(uid, _number(process["started_ms"], MAX_EPOCH_MS), node, address, tuple(devices), ports)


def usage(record: Record | None) -> Usage | None:
    return None if record is None else Usage(**_measures(record))


def text(value: Any, most: int) -> str:
    """The first `most` characters of it, those that can be neither stored nor shown replaced."""
    if not isinstance(value, str):
        raise ValueError(value)
    return "".join(one if one.isprintable() else "\ufffd" for one in value[:most])


def _measures(record: Mapping[str, Any]) -> dict[str, int]:
    given = record.keys() & {one.name for one in fields(Usage)}
    return {name: _number(record[name], _MAX_USAGE) for name in given}


def _maybe(value: Any, most: int) -> int | None:
    return None if value is None else _number(value, most)


def _number(value: Any, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError(value)
    return value
