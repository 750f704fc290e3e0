"""One attempt beside its processes: from its start to the record of its end. Standard library only."""

import os
import resource
import signal
from typing import NamedTuple

from iris_fed.backends.posix import procfs
from iris_fed.backends.posix.containment import Containment, Death
from iris_fed.backends.posix.files import Record
from iris_fed.backends.posix.output import OutputWriter

_READ_BYTES = 256 * 1024
_DRAIN_BYTES = 4 * 1024 * 1024


class Reason(NamedTuple):
    """Why we ended an attempt ourselves: a kind of `base.EndKind`, and a sentence."""

    kind: str
    message: str


class Limits(NamedTuple):
    """Zero = none, but for `grace_s`."""

    memory_bytes: int
    timeout_ms: int
    grace_s: float


class Attempt:
    """`death` is set once the main process ended, `reason` when it was us who ended it."""

    def __init__(self, uid: str, folder: str, containment: Containment, output: OutputWriter, pipe_fd: int) -> None:
        self.uid = uid
        self.folder = folder
        self.containment = containment
        self.output = output
        self.pipe_fd = pipe_fd
        self.limits = Limits(0, 0, 0.0)
        self.marker = b""
        self._held = b""
        self.started_ms = 0
        self.reason: Reason | None = None
        self.death: Death | None = None
        self.is_over = False
        self.usage: Record = {"memory_bytes": 0, "memory_peak_bytes": 0, "cpu_millicores": 0, "process_count": 0}
        self._cpu = (0, 0.0)

    def read_output(self, now_ms: int) -> bool:
        """Take what the pipe holds, up to one read's worth; False at its end."""
        try:
            data = os.read(self.pipe_fd, _READ_BYTES)
        except BlockingIOError:
            return True
        if data:
            self.output.write(self._without_marker(data), now_ms)
        return bool(data)

    @property
    def is_building(self) -> bool:
        """Its setup commands run; their end is a line of its output, `marker`."""
        return bool(self.marker)

    def _without_marker(self, data: bytes) -> bytes:
        """Hold back what may be the beginning of the marker; take the marker itself out."""
        if not self.marker:
            return data
        data, self._held = self._held + data, b""
        before, found, after = data.partition(self.marker)
        if found:
            self.marker = b""
            return before + after
        start = data.rfind(self.marker[:1])
        if start >= 0 and self.marker.startswith(data[start:]):
            data, self._held = data[:start], data[start:]
        return data

    def drain(self, now_ms: int) -> None:
        """The last words, now that nothing of the attempt runs. Somebody else may have been handed
        the pipe and still write to it, hence the bound."""
        until = self.output.end + _DRAIN_BYTES
        before = -1
        while before != self.output.end < until:
            before = self.output.end
            if not self.read_output(now_ms):
                break
        os.close(self.pipe_fd)
        self.output.write(self._held, now_ms)
        self.output.close()

    def sample(self, now_s: float) -> bool:
        """Measure the whole tree; True when the numbers moved enough to be told."""
        pids = self.containment.processes()
        used = sum(procfs.resident_bytes(pid) for pid in pids)
        if 0 < self.limits.memory_bytes < used:
            # Pages that processes share were counted once for each of them.
            used = sum(procfs.proportional_bytes(pid) for pid in pids)
        before = self.usage
        self.usage = {
            "memory_bytes": used,
            "memory_peak_bytes": max(used, int(before["memory_peak_bytes"])),
            "cpu_millicores": self._cpu_millicores(now_s),
            "process_count": len(pids),
        }
        return _moved(before, self.usage)

    def is_over_memory(self) -> bool:
        return 0 < self.limits.memory_bytes < int(self.usage["memory_bytes"])

    def is_near_memory(self) -> bool:
        return 0 < self.limits.memory_bytes < 2 * int(self.usage["memory_bytes"])

    def exit_record(self, finished_ms: int) -> Record:
        """How it ended, for `exit.json`. The processes are gone."""
        peak = max(int(self.usage["memory_peak_bytes"]), _credible_peak(self.death))
        usage = {**self.usage, "memory_bytes": 0, "cpu_millicores": 0, "process_count": 0, "memory_peak_bytes": peak}
        end = _end(self.death, self.reason)
        if self.is_building and self.reason is None and end["kind"] == "EXITED":
            end = _setup_end(int(end["exit_code"]))
        return {
            **end,
            "started_ms": self.started_ms,
            "finished_ms": finished_ms,
            "usage": usage,
        }

    def _cpu_millicores(self, now_s: float) -> int:
        used_us, at_s = self._cpu
        now_us = self.containment.cpu_us()
        self._cpu = (now_us, now_s)
        if at_s == 0.0 or now_s <= at_s:
            return 0
        return max(0, round((now_us - used_us) / (now_s - at_s) / 1000))


def _end(death: Death | None, reason: Reason | None) -> Record:
    if death is None:
        message = "exit code unknown: the attempt's supervisor was killed"
        kind, exit_code, number = "LOST", None, None
    elif os.WIFSIGNALED(death.status):
        number = os.WTERMSIG(death.status)
        kind, exit_code, message = "SIGNALED", 128 + number, f"ended by {_signal_name(number)}"
    else:
        number = None
        exit_code = os.WEXITSTATUS(death.status)
        kind, message = "EXITED", "" if exit_code == 0 else f"exited with code {exit_code}"
    if reason is not None:
        kind, message = reason
    return {"kind": kind, "exit_code": exit_code, "signal": number, "message": message}


def _setup_end(exit_code: int) -> Record:
    """The shell ended before the command could begin: a failure, whatever it says."""
    if exit_code == 0:
        message = "its setup ended the shell with exit code 0, so that the command never began"
        return {"kind": "NOT_STARTED", "exit_code": 1, "signal": None, "message": message}
    message = f"its setup failed with exit code {exit_code}"
    return {"kind": "EXITED", "exit_code": exit_code, "signal": None, "message": message}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _credible_peak(death: Death | None) -> int:
    """The kernel hands the launcher's own peak on to what it spawns; below it the number says nothing."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return death.maxrss_bytes if death is not None and death.maxrss_bytes > own else 0


def _moved(before: Record, now: Record) -> bool:
    if before["process_count"] != now["process_count"] or before["memory_peak_bytes"] == 0:
        return True
    memory, cpu = int(before["memory_bytes"]), int(before["cpu_millicores"])
    return abs(int(now["memory_bytes"]) - memory) * 20 > memory or abs(int(now["cpu_millicores"]) - cpu) > 50
