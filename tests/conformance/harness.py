"""What the backend suite needs of each implementation: a world to open backends on, and puppets,
programs that do what a test says when it says so."""

import asyncio
import contextlib
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path

from iris_fed.backends.base import (
    AttemptEnd,
    Backend,
    Building,
    Ended,
    EndKind,
    LaunchRequest,
    Owner,
    Queued,
    Running,
    Sampled,
)
from iris_fed.backends.local.backend import LocalBackend
from iris_fed.backends.local.client import wait_for_exit
from iris_fed.backends.local.settings import LocalSettings
from iris_fed.backends.posix import cgroup, procfs
from iris_fed.backends.posix.files import ATTEMPTS, SECRETS
from iris_fed.backends.scripted import ScriptedBackend, ScriptedEngine
from iris_fed.backends.slurm.backend import SlurmBackend
from iris_fed.backends.slurm.settings import SlurmSettings
from iris_fed.clock import SystemClock
from iris_fed.model.resources import Resources
from tests.slurm.real import Slurm, poll

OWNER = Owner("hub", "db-1")
OUTPUT_BYTES = 64 * 1024
PATIENCE_S = 45.0
NO_PROGRAM = "/no/such/program"

_PUPPET = """
echo run >> "$RUNS"
[ -z "$IGNORES_TERM" ] || trap '' TERM
exec 3<> "$STRINGS"
while read -r verb word <&3; do
  case "$verb" in
    say) cat "$word" ;;
    exit) exit "$word" ;;
    die) kill -"$word" $$ ;;
  esac
done
"""


def request(
    uid: str,
    *argv: str,
    env: Mapping[str, str] | None = None,
    resources: Resources | None = None,
    ports: tuple[str, ...] = (),
    timeout_ms: int | None = None,
) -> LaunchRequest:
    """As a controller would make it."""
    environment = {"IRIS_ATTEMPT_UID": uid, **(env or {})}
    return LaunchRequest(uid, "/ann/train/0", argv, environment, resources or Resources(), ports, timeout_ms)


class Witness:
    """Observes one backend from the start, and waits for what must come."""

    def __init__(self, backend: Backend) -> None:
        self.queued: dict[str, Queued] = {}
        self.building: dict[str, Building] = {}
        self.running: dict[str, Running] = {}
        self.ended: dict[str, Ended] = {}
        self.sampled: dict[str, Sampled] = {}
        self.order: dict[str, list[str]] = {}
        self._news = asyncio.Condition()
        self._task = asyncio.create_task(self._observe(backend))

    async def until_queued(self, uid: str) -> Queued:
        await self._until(lambda: uid in self.queued)
        return self.queued[uid]

    async def until_running(self, uid: str) -> Running:
        await self._until(lambda: uid in self.running)
        return self.running[uid]

    async def until_building(self, uid: str) -> Building:
        await self._until(lambda: uid in self.building)
        return self.building[uid]

    async def until_ended(self, uid: str) -> Ended:
        await self._until(lambda: uid in self.ended)
        return self.ended[uid]

    async def until_sampled(self, uid: str) -> Sampled:
        await self._until(lambda: uid in self.sampled)
        return self.sampled[uid]

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(holds)

    async def _observe(self, backend: Backend) -> None:
        while True:
            for observation in await backend.observe():
                uid = observation.attempt_uid
                self.order.setdefault(uid, []).append(type(observation).__name__)
                match observation:
                    case Queued():
                        self.queued[uid] = observation
                    case Building():
                        self.building[uid] = observation
                    case Running():
                        self.running[uid] = observation
                    case Ended():
                        self.ended[uid] = observation
                    case Sampled():
                        self.sampled[uid] = observation
            async with self._news:
                self._news.notify_all()


class Harness(ABC):
    """One world. `open` gives a backend on it as a new controller would have it."""

    def __init__(self) -> None:
        self._witnesses: list[Witness] = []

    async def open(self, owner: Owner = OWNER) -> tuple[Backend, Witness]:
        backend = self._make()
        await backend.start(owner)
        witness = Witness(backend)
        self._witnesses.append(witness)
        return backend, witness

    async def close(self) -> None:
        for witness in self._witnesses:
            await witness.close()
        await self._end_world()

    @abstractmethod
    def puppet(self, uid: str, *, ignores_term: bool = False, **asked: object) -> LaunchRequest: ...

    @abstractmethod
    async def say(self, uid: str, data: bytes) -> None:
        """The running puppet prints `data`; on return it was told so."""

    @abstractmethod
    async def exit(self, uid: str, code: int) -> None: ...

    @abstractmethod
    async def finish_setup(self, uid: str) -> None:
        """A setup of the command `read -r _ < <folder>/gate` is done."""

    @abstractmethod
    async def die(self, uid: str, number: signal.Signals) -> None:
        """By a signal that nobody of us sent."""

    @abstractmethod
    async def expire(self, uid: str) -> None:
        """Let the puppet's time run out."""

    @abstractmethod
    async def crash(self, backend: Backend) -> None:
        """The controller dies without a word."""

    @abstractmethod
    def runs(self, uid: str) -> int:
        """How often the puppet's program was started."""

    @abstractmethod
    def secret_files(self, uid: str) -> dict[str, str]:
        """What an attempt could read of its secret files now."""

    @abstractmethod
    def _make(self) -> Backend: ...

    @abstractmethod
    async def _end_world(self) -> None: ...


class ScriptedHarness(Harness):
    def __init__(self, settings: LocalSettings) -> None:
        super().__init__()
        self.now_ms = 1_700_000_000_000
        self._engine = ScriptedEngine(self._Now(self), settings)
        self._engine.auto = self._refuse_missing

    class _Now:
        def __init__(self, harness: "ScriptedHarness") -> None:
            self._harness = harness

        def now_ms(self) -> int:
            self._harness.now_ms += 1
            return self._harness.now_ms

    def puppet(self, uid: str, *, ignores_term: bool = False, **asked: object) -> LaunchRequest:
        return request(uid, "puppet", **asked)  # type: ignore[arg-type]

    async def say(self, uid: str, data: bytes) -> None:
        self._engine.write(uid, data)

    async def exit(self, uid: str, code: int) -> None:
        self._engine.finish(uid, code)

    async def finish_setup(self, uid: str) -> None:
        self._engine.setup_done(uid)

    async def die(self, uid: str, number: signal.Signals) -> None:
        self._engine.end(uid, AttemptEnd(EndKind.SIGNALED, 128 + number, number, f"ended by {number.name}"))

    async def expire(self, uid: str) -> None:
        self.now_ms += self._engine.attempts[uid].request.timeout_ms or 0
        self._engine.tick()

    async def crash(self, backend: Backend) -> None:
        assert isinstance(backend, ScriptedBackend)
        backend.crash()

    def runs(self, uid: str) -> int:
        return sum(1 for launched in self._engine.launched if launched.attempt_uid == uid)

    def secret_files(self, uid: str) -> dict[str, str]:
        return dict(self._engine.attempts[uid].secrets)

    def _make(self) -> Backend:
        return ScriptedBackend(self._Now(self), self._engine)

    async def _end_world(self) -> None:
        return

    @staticmethod
    def _refuse_missing(asked: LaunchRequest) -> AttemptEnd | None:
        if asked.argv[0] == NO_PROGRAM:
            return AttemptEnd(EndKind.NOT_STARTED, 127, message=f"no such program: {asked.argv[0]!r}")
        return None


class LocalHarness(Harness):
    """Real processes. Puppets hang on strings, a FIFO each."""

    def __init__(self, folder: Path, settings: LocalSettings) -> None:
        super().__init__()
        self.folder = folder
        self.state_dir = folder / "state"
        self._settings = settings
        self._strings: dict[str, int] = {}
        self._spoken = 0
        self._opened: list[LocalBackend] = []
        self._backends: list[Backend] = []

    def puppet(self, uid: str, *, ignores_term: bool = False, **asked: object) -> LaunchRequest:
        strings = self.folder / f"strings-{uid}"
        if uid not in self._strings:
            os.mkfifo(strings)
            self._strings[uid] = os.open(strings, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        env = {
            "RUNS": str(self.folder / f"runs-{uid}"),
            "STRINGS": str(strings),
            "IGNORES_TERM": "1" if ignores_term else "",
        }
        return request(uid, "sh", "-c", _PUPPET, env=env, **asked)  # type: ignore[arg-type]

    async def say(self, uid: str, data: bytes) -> None:
        self._spoken += 1
        words = self.folder / f"words-{self._spoken}"
        words.write_bytes(data)
        self.pull(uid, f"say {words}")

    async def exit(self, uid: str, code: int) -> None:
        self.pull(uid, f"exit {code}")

    async def finish_setup(self, uid: str) -> None:
        (self.folder / "gate").write_text("go\n")

    async def die(self, uid: str, number: signal.Signals) -> None:
        self.pull(uid, f"die {number.value}")

    async def expire(self, uid: str) -> None:
        """The launcher's own clock does it."""

    async def crash(self, backend: Backend) -> None:
        """What the launcher sees of a dead controller: its connection is gone."""
        await backend.close()

    def runs(self, uid: str) -> int:
        runs = self.folder / f"runs-{uid}"
        return len(runs.read_text().splitlines()) if runs.exists() else 0

    def secret_files(self, uid: str) -> dict[str, str]:
        folder = self.attempt_folder(uid) / SECRETS
        return {path.name: path.read_text() for path in folder.iterdir()} if folder.exists() else {}

    def attempt_folder(self, uid: str) -> Path:
        return self.state_dir / ATTEMPTS / uid

    def launcher_pid(self) -> int:
        """Raises ValueError unless exactly one launcher of this state directory lives."""
        (pid,) = [pid for pid in self.processes() if b"/launcher.py" in _command(pid) and self._is_first(pid)]
        return pid

    def processes(self) -> list[int]:
        """Everything alive that bears this world's name in its command line, environment or directory."""
        name = str(self.folder).encode()
        pids = [int(entry) for entry in os.listdir("/proc") if entry.isdecimal() and int(entry) != os.getpid()]
        return [pid for pid in pids if procfs.is_running(pid) and name in _traces(pid)]

    def _is_first(self, pid: int) -> bool:
        """A warden is a fork of the launcher and looks like it."""
        stat = procfs.read_stat(pid)
        return stat is not None and b"/launcher.py" not in _command(stat.ppid)

    def pull(self, uid: str, line: str) -> None:
        os.write(self._strings[uid], line.encode() + b"\n")

    def _make(self) -> Backend:
        backend = LocalBackend(self._settings, self.state_dir, SystemClock())
        self._opened.append(backend)
        return backend

    async def _end_world(self) -> None:
        for backend in self._opened:
            await backend.close()
        last = LocalBackend(self._settings, self.state_dir, SystemClock())
        await last.start(OWNER)
        await last.destroy()
        for string in self._strings.values():
            os.close(string)
        left = [pid for pid in self.processes() if not wait_for_exit(pid, PATIENCE_S)]
        assert not left, [_command(pid) for pid in left]


class SlurmHarness(LocalHarness):
    """Real jobs of a real Slurm."""

    def __init__(self, folder: Path, slurm: Slurm, settings: SlurmSettings) -> None:
        super().__init__(folder, LocalSettings())
        self.slurm = slurm
        self.state_dir = settings.shared_dir
        self._slurm_settings = settings

    def _make(self) -> Backend:
        return SlurmBackend(self._slurm_settings, SystemClock())

    async def open(self, owner: Owner = OWNER) -> tuple[Backend, Witness]:
        backend, witness = await super().open(owner)
        self._backends.append(backend)
        return backend, witness

    async def _end_world(self) -> None:
        for backend in self._backends:
            await backend.close()
        for string in self._strings.values():
            os.close(string)
        await asyncio.to_thread(self._empty)

    def _empty(self) -> None:
        self.slurm.empty()
        poll(lambda: set(self.slurm.states().values()) == {"idle"}, "Slurm is idle")
        left = [pid for pid in self.processes() if not wait_for_exit(pid, PATIENCE_S)]
        assert not left, [_command(pid) for pid in left]


def cgroups_can_be_made() -> bool:
    root = cgroup.find_root("iris-fed-conformance")
    if root is None:
        return False
    root.close()
    return True


def _command(pid: int) -> bytes:
    return _proc(pid, "cmdline")


def _traces(pid: int) -> bytes:
    where = b""
    with contextlib.suppress(OSError):
        where = os.fsencode(os.readlink(f"/proc/{pid}/cwd"))
    return b"\0".join((_proc(pid, "cmdline"), _proc(pid, "environ"), where))


def _proc(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
