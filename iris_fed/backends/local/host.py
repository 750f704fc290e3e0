"""What this machine has: the capacity that nobody configured, and free ports."""

import contextlib
import os
import socket
from collections.abc import Collection, Sequence
from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")
_MAX_PORT_TRIES = 1000


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


def free_ports(host: str, names: Sequence[str], taken: Collection[int]) -> dict[str, int]:
    """A free TCP port for each name, none of `taken`. Blocks on name resolution; raises OSError."""
    family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
    ports: dict[str, int] = {}
    with contextlib.ExitStack() as held:
        for _ in range(_MAX_PORT_TRIES):
            if len(ports) == len(names):
                return ports
            listener = held.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listener.bind((host, 0))
            port = int(listener.getsockname()[1])
            if port not in taken:
                ports[names[len(ports)]] = port
    raise OSError(f"no {len(names)} free ports on {host}")


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
