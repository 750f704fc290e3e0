"""Checks that every converter shares; each names the wire field that it refuses."""

from collections.abc import Iterable, Mapping, Sized

from iris_fed.errors import InvalidArgument
from iris_fed.model.limits import MAX_DURATION_MS, MAX_ERROR_CHARS
from iris_fed.rpc.gen.time import time_pb2

INT32_MAX = 2**31 - 1
_LAST_MS = 253_402_300_799_999
"""The end of the year 9999: later times are nonsense and break calendars."""


def whole(value: int, low: int, high: int, field: str) -> int:
    """`value`, if it lies within `low` and `high`, both included."""
    if not low <= value <= high:
        raise InvalidArgument(f"must be between {low} and {high}, not {value}", field)
    return value


def word(value: str, max_chars: int, field: str) -> str:
    """A required single line of printable text."""
    if not value:
        raise InvalidArgument("must not be empty", field)
    if len(value) > max_chars:
        raise InvalidArgument(f"has at most {max_chars} characters, not {len(value)}", field)
    if not value.isprintable():
        raise InvalidArgument("must not hold control characters", field)
    return value


def optional_word(value: str, max_chars: int, field: str) -> str:
    """As `word`, but empty = not given."""
    return word(value, max_chars, field) if value else ""


def no_nul(values: Iterable[str], field: str) -> tuple[str, ...]:
    """Texts that a process is started with: any characters but NUL."""
    checked = tuple(values)
    for index, value in enumerate(checked):
        if "\0" in value:
            raise InvalidArgument("must not hold a NUL byte", f"{field}[{index}]")
    return checked


def at_most(values: Sized, count: int, field: str) -> None:
    """Refuses more than `count` entries."""
    if len(values) > count:
        raise InvalidArgument(f"holds at most {count} entries, not {len(values)}", field)


def size_within(texts: Iterable[str], max_bytes: int, field: str) -> None:
    """The size as a process sees it: each text in UTF-8 with its closing NUL."""
    size = sum(len(text.encode()) + 1 for text in texts)
    if size > max_bytes:
        raise InvalidArgument(f"is {size} bytes; at most {max_bytes} are allowed", field)


def duration_ms(duration: time_pb2.Duration, field: str) -> int | None:
    """Milliseconds; absent and zero = no limit."""
    return whole(duration.milliseconds, 0, MAX_DURATION_MS, f"{field}.milliseconds") or None


def wire_duration(milliseconds: int | None) -> time_pb2.Duration | None:
    return None if milliseconds is None else time_pb2.Duration(milliseconds=milliseconds)


def wire_time(epoch_ms: int | None) -> time_pb2.Timestamp | None:
    return None if epoch_ms is None else time_pb2.Timestamp(epoch_ms=epoch_ms)


def told_time(timestamp: time_pb2.Timestamp) -> int | None:
    """A time that a peer told, epoch milliseconds; None = absent or out of any calendar."""
    return timestamp.epoch_ms if 0 < timestamp.epoch_ms <= _LAST_MS else None


def clipped(text: str, max_chars: int = MAX_ERROR_CHARS) -> str:
    """Text that a peer wrote, cut to `max_chars`."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def clamped(value: int, high: int = INT32_MAX) -> int:
    """A count that a peer told, forced between 0 and `high`."""
    return max(0, min(value, high))


def told_counts(counts: Mapping[str, int], max_entries: int, max_chars: int) -> dict[str, int]:
    """The first `max_entries` of a peer's counts, names cut and numbers not negative."""
    kept = sorted(counts)[:max_entries]
    return {name[:max_chars]: clamped(counts[name], 2**63 - 1) for name in kept}


def told_exit_code(code: int) -> int:
    """An exit code that a peer told: -n is a signal as Python says it, 128+n as a shell does."""
    return min(128 - code, 255) if code < 0 else min(code, 255)
