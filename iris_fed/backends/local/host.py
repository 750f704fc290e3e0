"""What this machine has: the capacity that nobody configured."""

import contextlib
import os
from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")


def detect_cpu_millicores() -> int:
    """Of the cores that this process may use, bounded by its container's quota."""
    cores = len(os.sched_getaffinity(0)) * 1000
    quota, _, period = _text(_CGROUP / "cpu.max").partition(" ")
    if not quota:
        quota = _text(_CGROUP / "cpu" / "cpu.cfs_quota_us")
        period = _text(_CGROUP / "cpu" / "cpu.cfs_period_us")
    with contextlib.suppress(ValueError, ZeroDivisionError):
        if int(quota) > 0:
            return max(1, min(cores, int(quota) * 1000 // int(period)))
    return cores


def detect_memory_bytes() -> int:
    """Of the machine, or of its container where that has less."""
    total = int(psutil.virtual_memory().total)
    for path in (_CGROUP / "memory.max", _CGROUP / "memory" / "memory.limit_in_bytes"):
        with contextlib.suppress(ValueError):
            total = min(total, int(_text(path)))
    return total


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
