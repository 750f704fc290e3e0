"""Attempts whose launcher died: followed by pidfd until they end, and ended on request.

Nobody can learn their exit code; what they started is still found, by cgroup or by warden.
"""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from iris_fed.backends.base import AttemptEnd, EndKind
from iris_fed.backends.local.records import AttemptRecord, Process
from iris_fed.backends.posix import cgroup, procfs
from iris_fed.backends.posix.children import ask_to_end
from iris_fed.backends.posix.warden import FORCE, TERMINATE

_SWEEP_PATIENCE_S = 30.0
_SWEEP_PAUSE_S = 0.005
_UID_VARIABLE = "IRIS_ATTEMPT_UID"

KILLED = AttemptEnd(EndKind.KILLED, message="killed on request")


@dataclass(slots=True)
class _Followed:
    process: Process
    pidfd: int
    end: AttemptEnd | None = None


class Orphans:
    """`on_end` once nothing of an orphan runs, with the end that we gave it, None when it ended itself."""

    def __init__(self, on_end: Callable[[str, AttemptEnd | None], Awaitable[None]]) -> None:
        self._on_end = on_end
        self._followed: dict[str, _Followed] = {}
        self._sweeps: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def __contains__(self, uid: str) -> bool:
        return uid in self._followed

    def follow(self, uid: str, process: Process) -> bool:
        """False when the process is gone already."""
        if uid in self._followed:
            return True
        pid, start = (process.guard_pid, process.guard_start) if process.guard_pid else (process.pid, process.start)
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        # The descriptor holds on to whoever bears the pid now; the start time says whether it is ours.
        if not procfs.is_alive(pid, start):
            os.close(pidfd)
            return False
        self._followed[uid] = _Followed(process, pidfd)
        self._idle.clear()
        asyncio.get_running_loop().add_reader(pidfd, self._gone, uid)
        return True

    def kill(self, uid: str, grace_s: float, end: AttemptEnd) -> None:
        followed = self._followed.get(uid)
        if followed is None or followed.end is not None:
            return
        followed.end = end
        if followed.process.guard_pid:
            procfs.send([followed.process.guard_pid], TERMINATE)
        else:
            ask_to_end(followed.process.pid)
        asyncio.get_running_loop().call_later(grace_s, self._force, uid)

    async def kill_all(self) -> None:
        for uid in list(self._followed):
            self.kill(uid, 0.0, KILLED)
        await self._idle.wait()

    async def close(self) -> None:
        """Stop following; they run on."""
        for uid in list(self._followed):
            self._let_go(uid)
        await asyncio.gather(*self._sweeps, return_exceptions=True)

    def _force(self, uid: str) -> None:
        followed = self._followed.get(uid)
        if followed is None:
            return
        process = followed.process
        if process.guard_pid:
            procfs.send([process.guard_pid], FORCE)
        elif process.cgroup:
            cgroup.kill(process.cgroup)
        else:
            procfs.send([process.pid], signal.SIGKILL)

    def _gone(self, uid: str) -> None:
        followed = self._let_go(uid)
        task = asyncio.get_running_loop().create_task(self._finish(uid, followed))
        self._sweeps.add(task)
        task.add_done_callback(self._swept)

    async def _finish(self, uid: str, followed: _Followed) -> None:
        await asyncio.to_thread(sweep, uid, followed.process)
        await self._on_end(uid, followed.end)

    def _swept(self, task: asyncio.Task[None]) -> None:
        self._sweeps.discard(task)
        if not self._followed and not self._sweeps:
            self._idle.set()

    def _let_go(self, uid: str) -> _Followed:
        followed = self._followed.pop(uid)
        asyncio.get_running_loop().remove_reader(followed.pidfd)
        os.close(followed.pidfd)
        return followed


def find_process(record: AttemptRecord) -> Process | None:
    """The live process of an attempt, also when its launcher died before it could note it. Blocks."""
    if record.boot != procfs.boot_id():
        return None
    if record.process is not None:
        return record.process
    inside = cgroup.processes(record.cgroup) if record.cgroup else []
    stats = {pid: procfs.read_stat(pid) for pid in inside or procfs.marked(_UID_VARIABLE, record.uid)}
    alive = [(stat.start, pid) for pid, stat in stats.items() if stat is not None and stat.state not in "ZX"]
    if not alive:
        return None
    start, pid = min(alive)
    return Process(record.boot, pid, start, record.cgroup)


def sweep(uid: str, process: Process) -> None:
    """Kill what the main process of an orphan left behind. Blocks, bounded."""
    if process.guard_pid and procfs.is_alive(process.guard_pid, process.guard_start):
        return
    deadline = time.monotonic() + _SWEEP_PATIENCE_S
    while process.cgroup and not cgroup.is_empty(process.cgroup) and time.monotonic() < deadline:
        cgroup.kill(process.cgroup)
        time.sleep(_SWEEP_PAUSE_S)
    cgroup.remove(process.cgroup)
    procfs.kill_all(lambda: procfs.marked(_UID_VARIABLE, uid), lambda: None, _SWEEP_PATIENCE_S)
