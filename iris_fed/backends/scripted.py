"""A backend without processes, for tests and simulations: what happens is said by the test.

`ScriptedEngine` is the world, which outlives a controller; `ScriptedBackend` one controller's hold
on it. No thread, no wall clock, no sleep.
"""

import asyncio
import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from iris_fed.backends.base import (
    AttemptEnd,
    BackendUnavailable,
    Building,
    Ended,
    EndKind,
    Honours,
    Intake,
    LaunchRequest,
    LogPage,
    NotRunning,
    Observation,
    Owner,
    Queued,
    Recovery,
    Running,
    Sampled,
    Stranger,
)
from iris_fed.backends.local.settings import LocalSettings
from iris_fed.backends.local.summary import machine_shape, summarise
from iris_fed.backends.news import News
from iris_fed.backends.posix.capacity import Ledger, lacking
from iris_fed.backends.scripted_output import ScriptedOutput
from iris_fed.clock import Clock
from iris_fed.model.files import ExecResult, FileChunk, FileEntry, FileListing, NoSuchFile
from iris_fed.model.resources import BackendSummary, NodeFree, Usage

KIND = "scripted"
DEFAULT_SETTINGS = LocalSettings(backend_id=KIND, name=KIND, cpu_millicores=8000, memory_bytes=32 * 1024**3)
_FIRST_PORT = 20_000


@dataclass(slots=True)
class _Attempt:
    request: LaunchRequest
    owner: Owner
    running: Running
    output: ScriptedOutput
    building: bool = False
    end: Ended | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def seen(self) -> Building | Running:
        now = self.running
        if not self.building:
            return now
        return Building(now.attempt_uid, now.started_ms, now.node, now.address, now.devices, now.ports)

    def notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class ScriptedEngine:
    """Attempts and what becomes of them.

    `auto` may end an attempt the moment it starts; `unavailable` makes every call that needs the
    engine raise; with `holds_kills` a kill is only noted in `kills`, and `end` does the rest. The
    launch of a task in `gates` (by task id) waits for the event there, as for a large workspace to be
    unpacked; `preparing` holds its uid meanwhile.
    """

    def __init__(self, clock: Clock, settings: LocalSettings = DEFAULT_SETTINGS) -> None:
        self.settings = settings
        self.launched: list[LaunchRequest] = []
        self.kills: list[str] = []
        self.auto: Callable[[LaunchRequest], AttemptEnd | None] = _goes_on
        self.on_exec: Callable[[str, Sequence[str]], ExecResult] = _does_nothing
        self.unavailable = False
        self.holds_kills = False
        self.intake = Intake()
        self.gates: dict[str, asyncio.Event] = {}
        self.preparing: dict[str, asyncio.Event] = {}
        self.ledger = Ledger(machine_shape(settings))
        self.attempts: dict[str, _Attempt] = {}
        self.listener: Callable[[Observation], None] | None = None
        self._clock = clock
        self._ports = itertools.count(_FIRST_PORT)

    def finish(self, uid: str, exit_code: int = 0) -> None:
        """The attempt's process exits."""
        self.end(uid, AttemptEnd(EndKind.EXITED, exit_code, message=_exit_sentence(exit_code)))

    def end(self, uid: str, end: AttemptEnd) -> None:
        """Raises KeyError for an attempt that never started; one that is over stays as it ended."""
        attempt = self.attempts[uid]
        if attempt.end is None:
            self.ledger.release(uid)
            never_ran = end.kind is EndKind.NOT_STARTED
            started_ms = None if never_ran else attempt.running.started_ms
            attempt.end = Ended(uid, end, started_ms, self._clock.now_ms())
            attempt.secrets = {}
            attempt.notify()
            self._tell(attempt.end)

    def setup_done(self, uid: str) -> None:
        """The attempt's setup commands have succeeded; its own command begins."""
        attempt = self.attempts[uid]
        attempt.building = False
        self._tell(attempt.running)

    def ports_for(self, request: LaunchRequest) -> dict[str, int]:
        return {name: next(self._ports) for name in request.ports}

    def queue(self, uid: str, reason: str) -> None:
        """The engine has the attempt wait in its own queue."""
        self._tell(Queued(uid, reason))

    def write(self, uid: str, data: bytes) -> None:
        """The attempt's process prints `data`, now."""
        attempt = self.attempts[uid]
        attempt.output.write(data, self._clock.now_ms())
        attempt.notify()

    def use(self, uid: str, usage: Usage) -> None:
        """The attempt is measured; over its memory it ends."""
        self._tell(Sampled(uid, usage))
        limit = self.attempts[uid].request.resources.memory_bytes
        if 0 < limit < usage.memory_bytes:
            message = f"used {usage.memory_bytes} bytes of memory, over its limit of {limit}"
            self.end(uid, AttemptEnd(EndKind.OUT_OF_MEMORY, 137, 9, message))

    def tick(self) -> None:
        """End what has run longer than its limit by the clock."""
        for uid, attempt in self.attempts.items():
            limit_ms = attempt.request.timeout_ms
            if limit_ms is not None and self._clock.now_ms() >= attempt.running.started_ms + limit_ms:
                self.end(uid, AttemptEnd(EndKind.TIMED_OUT, 143, 15, f"ran longer than its limit of {limit_ms} ms"))

    async def prepare(self, request: LaunchRequest) -> None:
        """Returns when the task's gate is open."""
        gate = self.gates.get(request.task_id)
        if gate is None:
            return
        done = self.preparing[request.attempt_uid] = asyncio.Event()
        try:
            await gate.wait()
        except asyncio.CancelledError:
            self.ledger.release(request.attempt_uid)
            raise
        finally:
            del self.preparing[request.attempt_uid]
            done.set()

    def start(self, request: LaunchRequest, owner: Owner) -> None:
        """What a backend's launch comes to, its capacity being reserved."""
        uid = request.attempt_uid
        allotment = self.ledger.held(uid)
        devices = allotment.devices if allotment is not None else ()
        ports = dict(request.given_ports) or self.ports_for(request)
        settings = self.settings
        running = Running(uid, self._clock.now_ms(), settings.name, settings.advertise_host, devices, ports)
        output = ScriptedOutput(settings.output_bytes)
        attempt = self.attempts[uid] = _Attempt(request, owner, running, output, bool(request.setup))
        attempt.secrets = dict(request.secret_files)
        self.launched.append(request)
        end = self.auto(request)
        if end is None or end.kind is not EndKind.NOT_STARTED:
            self._tell(attempt.seen)
        if end is not None:
            self.end(uid, end)

    def kill(self, uid: str) -> None:
        self.kills.append(uid)
        if not self.holds_kills:
            self.end(uid, AttemptEnd(EndKind.KILLED, 143, 15, "killed on request"))

    def _tell(self, observation: Observation) -> None:
        if self.listener is not None:
            self.listener(observation)


class ScriptedBackend:
    """Implements `base.Backend`; `engine` is what a test drives."""

    def __init__(self, clock: Clock, engine: ScriptedEngine | None = None) -> None:
        self.engine = engine or ScriptedEngine(clock)
        self._clock = clock
        self._news = News()
        self._owner = Owner("", "")
        self._epoch = 0

    @property
    def backend_id(self) -> str:
        return self.engine.settings.backend_id

    @property
    def kind(self) -> str:
        return KIND

    def crash(self) -> None:
        """The controller is gone without a word; the engine goes on, unheard."""
        self.engine.listener = None

    async def start(self, owner: Owner) -> None:
        self._check_available()
        self._owner = owner
        self.engine.listener = self._news.add
        for attempt in self.engine.attempts.values():
            if attempt.end is None:
                self._news.add(attempt.seen)

    async def close(self) -> None:
        self.crash()

    def summary(self) -> BackendSummary:
        self._epoch = max(self._epoch + 1, self._clock.now_ms())
        return summarise(self.engine.settings, self.engine.ledger, self._epoch, len(self._alive()), KIND)

    def nodes(self) -> Sequence[NodeFree]:
        free = self.engine.ledger.free()
        return (
            NodeFree(
                self.engine.settings.name,
                free.cpu_millicores,
                free.memory_bytes,
                free.devices,
                self.engine.ledger.shape,
            ),
        )

    def refusals(self, request: Honours) -> tuple[str, ...]:
        """Everything that was asked for but gangs: there is nothing that could honour it."""
        asked = dataclasses.replace(request, gang=False)
        return tuple(name for name, value in dataclasses.asdict(asked).items() if value)

    def intake(self) -> Intake:
        return self.engine.intake

    async def launch(self, request: LaunchRequest) -> None:
        self._check_available()
        uid, ledger = request.attempt_uid, self.engine.ledger
        known = self.engine.attempts.get(uid)
        if uid in self.engine.preparing:
            await self.engine.preparing[uid].wait()
        elif known is not None:
            if known.end is not None:
                self._news.add(known.end)
        elif ledger.reserve(uid, request.resources) is None:
            end = AttemptEnd(EndKind.NO_CAPACITY, message=lacking(ledger.shape, ledger.free(), request.resources))
            self._news.add(Ended(uid, end, None, self._clock.now_ms()))
        else:
            await self.engine.prepare(request)
            self.engine.start(request, self._owner)

    async def launch_gang(self, requests: Sequence[LaunchRequest]) -> None:
        for request in requests:
            await self.launch(request)

    async def allot_ports(self, requests: Sequence[LaunchRequest]) -> Mapping[str, Mapping[str, int]]:
        return {request.attempt_uid: self.engine.ports_for(request) for request in requests if request.ports}

    def address(self, node: str) -> str:
        return self.engine.settings.advertise_host

    async def exec(self, attempt_uid: str, argv: Sequence[str], timeout_s: float, max_bytes: int) -> ExecResult:
        self._check_available()
        if attempt_uid not in self._alive():
            raise NotRunning(attempt_uid)
        return self.engine.on_exec(attempt_uid, argv)

    async def list_files(self, attempt_uid: str, path: str, limit: int) -> FileListing:
        contents = self._contents(attempt_uid, path)
        if path in contents:
            return FileListing((FileEntry(path, False, len(contents[path]), 0, 0o644),))
        start = f"{path}/" if path else ""
        below = {name[len(start) :] for name in contents if name.startswith(start)}
        if path and not below:
            raise NoSuchFile(path, "does not exist")
        entries = [
            FileEntry(start + name, False, len(contents[start + name]), 0, 0o644)
            if start + name in contents
            else FileEntry(start + name, True, 0, 0, 0o755)
            for name in sorted({rest.partition("/")[0] for rest in below})
        ]
        return FileListing(tuple(entries[:limit]), len(entries) > limit)

    async def read_file(self, attempt_uid: str, path: str, offset: int, max_bytes: int) -> FileChunk:
        contents = self._contents(attempt_uid, path)
        if path not in contents:
            raise NoSuchFile(path, "does not exist")
        return FileChunk(contents[path][offset : offset + max_bytes], len(contents[path]))

    def _contents(self, attempt_uid: str, path: str) -> Mapping[str, bytes]:
        attempt = self.engine.attempts.get(attempt_uid)
        if attempt is None:
            raise NoSuchFile(path, "is gone with its attempt's work directory")
        return attempt.request.files

    async def kill(self, attempt_uid: str) -> None:
        self._check_available()
        if attempt_uid in self.engine.preparing:
            await self.engine.preparing[attempt_uid].wait()
        if attempt_uid in self._alive():
            self.engine.kill(attempt_uid)

    async def observe(self) -> tuple[Observation, ...]:
        return await self._news.take()

    async def recover(self, live: Collection[str]) -> Recovery:
        self._check_available()
        attempts = self.engine.attempts
        known = [attempts[uid] for uid in live if uid in attempts]
        strangers = tuple(
            Stranger(uid, one.request.task_id, one.owner.cluster, one.owner.database_id)
            for uid, one in self._alive().items()
            if uid not in live
        )
        return Recovery(tuple(one.end or one.seen for one in known), frozenset(live) - attempts.keys(), strangers)

    async def read_log(self, attempt_uid: str, offset: int, max_bytes: int, tail_lines: int = 0) -> LogPage:
        attempt = self.engine.attempts.get(attempt_uid)
        if attempt is None:
            return LogPage((), 0, True)
        start = attempt.output.tail_offset(tail_lines) if tail_lines > 0 else offset
        return attempt.output.page(start, max_bytes, attempt.end is not None)

    async def wait_log(self, attempt_uid: str, offset: int, timeout_s: float) -> bool:
        attempt = self.engine.attempts.get(attempt_uid)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while attempt is not None and attempt.end is None and attempt.output.end <= offset:
                    await attempt.changed.wait()
                return True
        return False

    async def forget(self, attempt_uid: str) -> None:
        attempt = self.engine.attempts.get(attempt_uid)
        if attempt is not None and attempt.end is not None:
            del self.engine.attempts[attempt_uid]

    def _alive(self) -> dict[str, _Attempt]:
        return {uid: one for uid, one in self.engine.attempts.items() if one.end is None}

    def _check_available(self) -> None:
        if self.engine.unavailable:
            raise BackendUnavailable("the scripted engine was told to be away")


def _goes_on(request: LaunchRequest) -> AttemptEnd | None:
    return None


def _does_nothing(uid: str, argv: Sequence[str]) -> ExecResult:
    return ExecResult(0, b"", b"")


def _exit_sentence(exit_code: int) -> str:
    return f"exited with code {exit_code}" if exit_code else ""
