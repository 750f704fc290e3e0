"""A keeper's attempts: started once, watched, limited, ended whole.

Standard library only: it runs beside the tasks.
"""

import contextlib
import os
import selectors
import signal
import time
import traceback
from collections.abc import Callable

from iris_fed.backends.posix import cgroup, files, procfs
from iris_fed.backends.posix.attempt import Attempt, Limits, Reason
from iris_fed.backends.posix.children import reap
from iris_fed.backends.posix.containment import Containment, InCgroup, Program, UnderWarden
from iris_fed.backends.posix.files import Record
from iris_fed.backends.posix.loop import Loop
from iris_fed.backends.posix.output import OutputWriter
from iris_fed.backends.posix.spawn import Account, StartError

_SWEEP_FIRST_S = 0.001
_SWEEP_MOST_S = 0.1
_SAMPLE_S = 1.0
_SAMPLE_NEAR_LIMIT_S = 0.25
_SAMPLE_SHARE = 0.02
"""Measuring takes at most this share of a core; with many processes it becomes rarer."""
_RETRY_S = 1.0
_WARDEN = "warden"


class Attempts:
    """`tell` hears of what happened, `has_output` of each attempt that wrote."""

    def __init__(
        self,
        loop: Loop,
        tell: Callable[[Record], None],
        has_output: Callable[[Attempt], None],
        *,
        use_cgroups: bool = True,
    ) -> None:
        self.alive: dict[str, Attempt] = {}
        self._loop = loop
        self._tell = tell
        self._has_output = has_output
        self._children: dict[int, Attempt] = {}
        self._secrets: dict[str, list[str]] = {}
        self._boot = procfs.boot_id()
        self._sampling = False
        self._on_idle: Callable[[], None] = _nothing
        directory = os.stat(".")
        name = f"iris-fed-{directory.st_dev:x}-{directory.st_ino:x}"
        self._cgroups = cgroup.find_root(name) if use_cgroups else None

    def start(self, on_idle: Callable[[], None], on_term: Callable[[], None]) -> None:
        """`on_idle` whenever the last attempt is over."""
        self._on_idle = on_idle
        self._loop.watch_signals(self._bury, on_term)

    def close(self) -> None:
        if self._cgroups is not None:
            self._cgroups.close()

    def launch(self, request: Record) -> Record:
        """Start an attempt unless its directory says that it was started. Raises OSError."""
        uid = request["uid"]
        if not files.is_uid(uid):
            raise ValueError(f"no attempt uid: {uid!r}")
        # Relative to where the launcher stands: its directory may be moved aside and back.
        folder = files.attempt_folder("", uid)
        if uid in self.alive or os.path.exists(os.path.join(folder, files.ATTEMPT)):
            return {"known": True}
        work = os.path.join(folder, files.WORK)
        os.makedirs(work, exist_ok=True)
        root = self._cgroups if request["contain"] != _WARDEN else None
        record = {**request["record"], "boot": self._boot, "cgroup": "" if root is None else root.path(uid)}
        # Before the process: should we die now, nobody starts it again.
        files.write_record(folder, files.ATTEMPT, record, durable=True)
        self._secrets[uid] = list(request.get("secrets", ()))
        account = Account(*request["account"]) if request["account"] is not None else None
        program = Program(request["argv"], request["env"], work, account)
        output = OutputWriter(folder, int(request["output_bytes"]))
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(read_fd, False)
        try:
            containment = _contain(root, uid, program, write_fd)
        except (StartError, OSError) as error:
            os.close(read_fd)
            self._refuse(uid, folder, error)
            return {"known": False}
        finally:
            os.close(write_fd)
        self._begin(Attempt(uid, folder, containment, output, read_fd), request)
        return {"known": False}

    def end(self, uid: str, kind: str, message: str) -> None:
        """SIGTERM, and after the attempt's grace everything else; the first reason counts."""
        attempt = self.alive.get(uid)
        if attempt is None or attempt.death is not None or attempt.reason is not None:
            return
        attempt.reason = Reason(kind, message)
        attempt.containment.ask_to_end()
        self._loop.call_later(attempt.limits.grace_s, lambda: self._force(attempt))

    def force_all(self, kind: str, message: str) -> None:
        for attempt in self.alive.values():
            if attempt.death is None and attempt.reason is None:
                attempt.reason = Reason(kind, message)
            self._force(attempt)

    def _refuse(self, uid: str, folder: str, error: StartError | OSError) -> None:
        if isinstance(error, StartError):
            end: Record = {"kind": "NOT_STARTED", "exit_code": error.exit_code, "message": error.message}
        else:
            end = {"kind": "LOST", "exit_code": None, "message": f"this machine could not start it: {error}"}
        record = {**end, "signal": None, "started_ms": None, "finished_ms": _now_ms(), "usage": {}}
        self._record_end(uid, folder, record)

    def _begin(self, attempt: Attempt, request: Record) -> None:
        attempt.started_ms = _now_ms()
        attempt.marker = request.get("marker", "").encode()
        attempt.limits = Limits(int(request["memory_bytes"]), int(request["timeout_ms"]), float(request["grace_s"]))
        self.alive[attempt.uid] = attempt
        self._children[attempt.containment.child()] = attempt
        self._write_process(attempt)
        self._tell(
            {
                "event": "started",
                "uid": attempt.uid,
                "started_ms": attempt.started_ms,
                "building": attempt.is_building,
            }
        )
        self._loop.watch(attempt.pipe_fd, selectors.EVENT_READ, lambda: self._read(attempt))
        if attempt.is_building:
            self._limit_setup(attempt, int(request.get("setup_timeout_ms", 0)))
        else:
            self._limit_run(attempt)
        if not self._sampling:
            self._sampling = True
            self._loop.call_later(_SAMPLE_S, self._sample)

    def _write_process(self, attempt: Attempt) -> None:
        process = {
            **attempt.containment.record(),
            "started_ms": attempt.started_ms,
            "building": attempt.is_building,
        }
        with contextlib.suppress(OSError):
            # On a full disk the attempt runs on; only a dead launcher would miss this.
            files.write_record(attempt.folder, files.PROCESS, process, durable=False)

    def _limit_run(self, attempt: Attempt) -> None:
        if attempt.limits.timeout_ms > 0:
            seconds, uid = attempt.limits.timeout_ms / 1000, attempt.uid
            message = f"ran longer than its limit of {seconds:g} s"
            self._loop.call_later(seconds, lambda: self.end(uid, "TIMED_OUT", message))

    def _limit_setup(self, attempt: Attempt, timeout_ms: int) -> None:
        seconds = (timeout_ms or attempt.limits.timeout_ms) / 1000

        def end() -> None:
            if attempt.is_building:
                self.end(attempt.uid, "TIMED_OUT", f"its setup took longer than its limit of {seconds:g} s")

        if seconds > 0:
            self._loop.call_later(seconds, end)

    def _read(self, attempt: Attempt) -> None:
        was_building = attempt.is_building
        if not attempt.read_output(_now_ms()):
            self._loop.unwatch(attempt.pipe_fd)
        if was_building and not attempt.is_building:
            attempt.started_ms = _now_ms()
            self._write_process(attempt)
            self._limit_run(attempt)
            self._tell({"event": "running", "uid": attempt.uid, "started_ms": attempt.started_ms})
        self._has_output(attempt)

    def _force(self, attempt: Attempt) -> None:
        if not attempt.is_over:
            attempt.containment.force()

    def _bury(self) -> None:
        """Children died: main processes and wardens, and orphans that came to us."""
        for pid, (status, maxrss_bytes) in reap().items():
            attempt = self._children.pop(pid, None)
            if attempt is None:
                continue
            attempt.death = attempt.containment.take_death(status, maxrss_bytes)
            self._sweep(attempt, _SWEEP_FIRST_S)

    def _sweep(self, attempt: Attempt, pause_s: float) -> None:
        """Until nothing of it is left; a process in the kernel's hands may take its time."""
        if attempt.containment.is_empty() and not (attempt.death is None and self._kill_strays()):
            self._finish(attempt)
            return
        attempt.containment.force()
        again = min(2 * pause_s, _SWEEP_MOST_S)
        self._loop.call_later(pause_s, lambda: self._sweep(attempt, again))

    def _finish(self, attempt: Attempt) -> None:
        attempt.is_over = True
        self._loop.unwatch(attempt.pipe_fd)
        attempt.drain(_now_ms())
        record = attempt.exit_record(_now_ms())
        attempt.containment.close()
        self._record_end(attempt.uid, attempt.folder, record)

    def _record_end(self, uid: str, folder: str, record: Record) -> None:
        """The end is told when it is on disk: with a full disk, once there is room."""
        self._remove_secrets(uid, folder)
        try:
            os.makedirs(folder, exist_ok=True)
            files.write_record(folder, files.EXIT, record, durable=False)
        except OSError:
            self._loop.call_later(_RETRY_S, lambda: self._record_end(uid, folder, record))
            return
        self.alive.pop(uid, None)
        self._tell({"event": "ended", "uid": uid, "record": record})
        if not self.alive:
            self._on_idle()

    def _remove_secrets(self, uid: str, folder: str) -> None:
        """Before anybody hears of the end. What cannot be removed now, the controller's next start removes."""
        try:
            files.remove_secrets(folder, self._secrets.pop(uid, ()))
        except OSError:
            traceback.print_exc()

    def _kill_strays(self) -> bool:
        """A warden was killed: what it held is ours now, among other attempts' orphans. True when
        there was any."""
        held = set(self._children)
        for attempt in self.alive.values():
            held.update(attempt.containment.processes())
        strays = [pid for pid in procfs.descendants(os.getpid()) if pid not in held and procfs.is_running(pid)]
        procfs.send(strays, signal.SIGSTOP)
        procfs.send(strays, signal.SIGKILL)
        return bool(strays)

    def _sample(self) -> None:
        began = time.monotonic()
        near = False
        for attempt in list(self.alive.values()):
            if attempt.is_over:
                continue
            if attempt.sample(began):
                self._tell({"event": "sampled", "uid": attempt.uid, "usage": attempt.usage})
            near = near or attempt.is_near_memory()
            if attempt.is_over_memory():
                self._end_over_memory(attempt)
        self._sampling = bool(self.alive)
        if self._sampling:
            base = _SAMPLE_NEAR_LIMIT_S if near else _SAMPLE_S
            self._loop.call_later(max(base, (time.monotonic() - began) / _SAMPLE_SHARE), self._sample)

    def _end_over_memory(self, attempt: Attempt) -> None:
        """At once: a grace would let it take the machine."""
        if attempt.death is None and attempt.reason is None:
            used, limit = attempt.usage["memory_bytes"], attempt.limits.memory_bytes
            # In the unit in which the limit is a round number, as its user wrote it.
            unit, name = (2**20, "MiB") if limit % 2**20 == 0 else (10**6, "MB")
            words = f"used {used / unit:.1f} {name} of memory, over its limit of {limit / unit:.1f} {name}"
            attempt.reason = Reason("OUT_OF_MEMORY", words)
        attempt.containment.force()


def _contain(root: cgroup.CgroupRoot | None, uid: str, program: Program, output_fd: int) -> Containment:
    """Raises StartError, or OSError when not even a warden can be made."""
    if root is not None:
        # The kernel may allow no further cgroup; a warden needs none.
        with contextlib.suppress(OSError):
            return InCgroup(root, uid, program, output_fd)
    return UnderWarden(program, output_fd)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _nothing() -> None:
    """Where a caller did not ask to be called."""
