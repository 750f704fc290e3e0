"""How values look to a person. All pure."""

from datetime import UTC, datetime

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def duration(milliseconds: int | None) -> str:
    """`40ms`, `1.4s`, `12s`, `3m05s`, `2h10m`, `3d04h`; "-" for None."""
    if milliseconds is None:
        return "-"
    if milliseconds < 1000:
        return f"{max(0, milliseconds)}ms"
    seconds = milliseconds / 1000
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02d}h"


def age(now_ms: int, then_ms: int) -> str:
    """How long ago, in the form of `duration`; "never" for a time of 0."""
    return duration(now_ms - then_ms) if then_ms > 0 else "never"


def size(amount: int) -> str:
    """Bytes in powers of 1000: `512 B`, `1.5 GB`."""
    value = float(amount)
    for unit in _UNITS:
        if value < 999.5 or unit == _UNITS[-1]:
            break
        value /= 1000
    return f"{amount} B" if unit == "B" else f"{value:.3g} {unit}"


def cores(millicores: int) -> str:
    return f"{millicores / 1000:g}"


def clock_time(epoch_ms: int) -> str:
    """Local time to the millisecond, as in a log."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).astimezone().isoformat(" ", "milliseconds")


def state(name: str) -> str:
    """A wire state without its prefix: `JOB_STATE_RUNNING` is `RUNNING`."""
    return name.removeprefix("JOB_STATE_").removeprefix("TASK_STATE_")


def place(cluster: str, backend: str) -> str:
    """Where something runs: `gpu-lab/local`; "-" while nowhere."""
    return "/".join(part for part in (cluster, backend) if part) or "-"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
