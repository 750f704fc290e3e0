"""What Linux tells about processes: who a pid is, what descends from it, what it uses.

Standard library only: it runs beside the tasks.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KILL_PAUSE_S = 0.002


class Stat(NamedTuple):
    """`start` counts clock ticks since boot; with the pid it names one process of this boot."""

    state: str
    ppid: int
    start: int
    cpu_ticks: int


def boot_id() -> str:
    return _read("/proc/sys/kernel/random/boot_id").strip()


def read_stat(pid: int) -> Stat | None:
    """None when there is no such process. `cpu_ticks` includes children that were waited for."""
    text = _read(f"/proc/{pid}/stat")
    if not text:
        return None
    # The command's name stands in parentheses and may hold anything; the last one closes it.
    fields = text[text.rindex(")") + 2 :].split()
    return Stat(fields[0], int(fields[1]), int(fields[19]), sum(int(ticks) for ticks in fields[11:15]))


def is_alive(pid: int, start: int) -> bool:
    """Whether this very process still runs; a zombie does not."""
    stat = read_stat(pid)
    return stat is not None and stat.start == start and stat.state not in "ZX"


def is_running(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.state not in "ZX"


def children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        found.extend(int(child) for child in _read(f"/proc/{pid}/task/{thread}/children").split())
    return found


def descendants(pid: int) -> list[int]:
    """Everything below `pid`, parents before children. Exact only while nothing forks."""
    found: list[int] = []
    frontier = [pid]
    while frontier:
        below = children(frontier.pop())
        found.extend(below)
        frontier.extend(below)
    return found


def resident_bytes(pid: int) -> int:
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * PAGE_BYTES if len(fields) > 1 else 0


def proportional_bytes(pid: int) -> int:
    """Like `resident_bytes`, but a page that n processes share counts 1/n; dearer to ask."""
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return resident_bytes(pid)


def cpu_ticks(pid: int) -> int:
    stat = read_stat(pid)
    return 0 if stat is None else stat.cpu_ticks


def kill_all(living: Callable[[], Iterable[int]], reap: Callable[[], object], patience_s: float) -> bool:
    """Stop, then kill, what `living` names until it names nothing; False when that took too long.

    Stopping first holds a chain that forks faster than one can look; `reap` collects the dead.
    """
    deadline = time.monotonic() + patience_s
    while True:
        reap()
        victims = set(living())
        if not victims:
            return True
        if time.monotonic() > deadline:
            return False
        send(victims, signal.SIGSTOP)
        while newborn := set(living()) - victims:
            send(newborn, signal.SIGSTOP)
            victims |= newborn
        send(victims, signal.SIGKILL)
        reap()
        if living():
            time.sleep(_KILL_PAUSE_S)


def send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def marked(variable: str, value: str) -> list[int]:
    """Processes whose initial environment holds `variable` = `value`."""
    mark = f"{variable}={value}".encode()
    found: list[int] = []
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as stream:
                environ = stream.read()
        except OSError:
            continue
        if mark in environ.split(b"\0"):
            found.append(int(name))
    return found


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
