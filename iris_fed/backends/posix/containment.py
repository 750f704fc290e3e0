"""The two ways in which an attempt's keeper holds of everything that an attempt starts.

Standard library only.
"""

import contextlib
import json
import os
import select
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from iris_fed.backends.posix import cgroup, procfs, warden
from iris_fed.backends.posix.children import ask_to_end
from iris_fed.backends.posix.files import Record
from iris_fed.backends.posix.spawn import Account, StartError, spawn

_START_PATIENCE_MS = 30_000
_REPORT_BYTES = 4096


class Program(NamedTuple):
    """What to run, where, and as whom (None = as the launcher)."""

    argv: Sequence[str]
    env: Mapping[str, str]
    folder: str
    account: Account | None = None

    def start(self, output_fd: int) -> int:
        """In `folder`; afterwards this process is back where it stood, wherever that was moved. Raises StartError."""
        home = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.chdir(self.folder)
            return spawn(self.argv, self.env, output_fd, self.account)
        finally:
            os.fchdir(home)
            os.close(home)


class Death(NamedTuple):
    """Of an attempt's main process: its wait(2) status and peak resident bytes."""

    status: int
    maxrss_bytes: int


class Containment(Protocol):
    """One attempt's processes: `pid` is the main one, started at `start` (ticks since boot)."""

    pid: int
    start: int

    def record(self) -> Record:
        """What another process needs to find and end them should the launcher die."""
        ...

    def child(self) -> int:
        """The launcher's own child whose death says that the main process ended."""
        ...

    def take_death(self, status: int, maxrss_bytes: int) -> Death | None:
        """What the death of `child` (wait(2) status, peak) says of the main process; None when
        nobody can know."""
        ...

    def ask_to_end(self) -> None: ...

    def force(self) -> None:
        """Kill everything; `is_empty` tells when it is done."""
        ...

    def is_empty(self) -> bool: ...

    def processes(self) -> list[int]: ...

    def cpu_us(self) -> int:
        """CPU time so far, of the whole tree, in microseconds."""
        ...

    def close(self) -> None: ...


class InCgroup:
    """The kernel keeps the list."""

    def __init__(self, root: cgroup.CgroupRoot, uid: str, program: Program, output_fd: int) -> None:
        """Raises StartError, or OSError when no cgroup can be made."""
        self._path = root.make(uid)
        try:
            root.enter(self._path)
            try:
                self.pid = program.start(output_fd)
            finally:
                _leave(root)
        except (StartError, OSError):
            cgroup.remove(self._path)
            raise
        self.start = _start_ticks(self.pid)

    def record(self) -> Record:
        return {"pid": self.pid, "start": self.start, "cgroup": self._path}

    def child(self) -> int:
        return self.pid

    def take_death(self, status: int, maxrss_bytes: int) -> Death | None:
        return Death(status, maxrss_bytes)

    def ask_to_end(self) -> None:
        ask_to_end(self.pid)

    def force(self) -> None:
        cgroup.kill(self._path)

    def is_empty(self) -> bool:
        return cgroup.is_empty(self._path)

    def processes(self) -> list[int]:
        return cgroup.processes(self._path)

    def cpu_us(self) -> int:
        return cgroup.cpu_us(self._path)

    def close(self) -> None:
        cgroup.remove(self._path)


class UnderWarden:
    """A fork of the launcher is their subreaper; see `warden`."""

    def __init__(self, program: Program, output_fd: int) -> None:
        """Raises StartError, or OSError when there can be no further process."""
        self._report_fd, report = os.pipe()
        self._warden = _fork(lambda: warden.guard(report, output_fd, program.start))
        self._warden_start = _start_ticks(self._warden)
        os.close(report)
        self._pending = b""
        self._is_over = False
        try:
            first = self._read_report()
            if first is None:
                raise StartError(126, "the attempt's supervisor died before it started anything")
            if "message" in first:
                raise StartError(first["exit_code"], first["message"])
        except StartError:
            os.close(self._report_fd)
            raise
        self.pid = first["pid"]
        self.start = first["start"]

    def record(self) -> Record:
        return {"pid": self.pid, "start": self.start, "warden": self._warden, "warden_start": self._warden_start}

    def child(self) -> int:
        return self._warden

    def take_death(self, status: int, maxrss_bytes: int) -> Death | None:
        last = self._read_report()
        self._is_over = True
        return None if last is None else Death(last["status"], last["maxrss_bytes"])

    def ask_to_end(self) -> None:
        self._signal(warden.TERMINATE)

    def force(self) -> None:
        self._signal(warden.FORCE)

    def is_empty(self) -> bool:
        """A warden ends when nothing is left below it."""
        return self._is_over

    def processes(self) -> list[int]:
        return procfs.descendants(self._warden)

    def cpu_us(self) -> int:
        below = procfs.descendants(self._warden)
        ticks = sum(procfs.cpu_ticks(pid) for pid in [self._warden, *below])
        return ticks * 1_000_000 // procfs.TICKS_PER_S

    def close(self) -> None:
        os.close(self._report_fd)

    def _signal(self, number: int) -> None:
        """Once it was waited for, its pid may be somebody else's."""
        if not self._is_over:
            procfs.send([self._warden], number)

    def _read_report(self) -> Record | None:
        while b"\n" not in self._pending:
            poll = select.poll()
            poll.register(self._report_fd, select.POLLIN)
            chunk = os.read(self._report_fd, _REPORT_BYTES) if poll.poll(_START_PATIENCE_MS) else b""
            if not chunk:
                return None
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        report = json.loads(line)
        return report if isinstance(report, dict) else None


def _leave(root: cgroup.CgroupRoot) -> None:
    """A launcher that stays in an attempt's cgroup would be killed with it, so it gives up."""
    try:
        root.leave()
    except OSError as error:
        raise SystemExit(f"cannot leave an attempt's cgroup: {error}") from error


def _fork(life: Callable[[], object]) -> int:
    """The signals that the child waits for are blocked from before its birth."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, warden.HELD_SIGNALS)
    try:
        pid = os.fork()
        if pid == 0:
            life()
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _start_ticks(pid: int) -> int:
    with contextlib.suppress(ValueError, IndexError):
        stat = procfs.read_stat(pid)
        return 0 if stat is None else stat.start
    return 0
