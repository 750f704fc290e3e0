"""What the controller asks of an engine that runs attempts. One conformance suite tests them all.

A backend knows attempts, by uid, and nothing of jobs' fates, databases or federation. It may be
asked the same thing twice: everything here is idempotent by attempt uid.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from iris_fed.model.files import ExecResult, FileChunk, FileListing
from iris_fed.model.observed import AttemptEnd, Building, Ended, EndKind, Observation, Queued, Running, Sampled
from iris_fed.model.resources import BackendSummary, NodeFree, Resources
from iris_fed.model.states import Band

__all__ = [
    "AttemptEnd",
    "Backend",
    "BackendUnavailable",
    "Building",
    "EndKind",
    "Ended",
    "Honours",
    "Intake",
    "LaunchRequest",
    "LogLine",
    "LogPage",
    "NotRunning",
    "Observation",
    "Owner",
    "Queued",
    "Recovery",
    "Running",
    "Sampled",
    "Stranger",
]


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose attempts these are: every attempt is tagged with it (design, section 8)."""

    cluster: str
    database_id: str
    ancestor_ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One attempt to start. `argv[0]` is looked up in the task's PATH.

    `env` is complete but for what only the backend knows: it adds IRIS_WORKDIR, IRIS_SECRETS_DIR,
    IRIS_ADVERTISE_HOST, IRIS_PORT_<NAME> for each of `ports`, and the device variables.
    `timeout_ms` runs from the start of the process, or the end of its setup; None = no limit.

    `setup` are shell commands, run one after the other in one shell in the work directory before
    `argv` takes its place, so that what they export is kept; the first that fails ends the
    attempt. They may take `setup_timeout_ms` together (None = `timeout_ms`). `files` (path in the
    work directory -> content) and the zip file `bundle` are put there first. `given_ports` were
    allotted before, by `allot_ports`.

    `secret_files` (name -> content) lie in a directory of their own, named by IRIS_SECRETS_DIR, which
    only the task's user may read and which goes with the attempt's end.

    `band` is the job's priority, `choices` what its constraints settle on by equality (key -> value): an
    engine may pass on what it knows of.

    `owner` is the user whose job it is, `<requester>/<user>` where another cluster handed it over.
    """

    attempt_uid: str
    task_id: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    resources: Resources
    ports: tuple[str, ...] = ()
    timeout_ms: int | None = None
    node: str = ""
    setup: tuple[str, ...] = ()
    setup_timeout_ms: int | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    bundle: Path | None = None
    given_ports: Mapping[str, int] = field(default_factory=dict)
    secret_files: Mapping[str, str] = field(default_factory=dict, repr=False)
    owner: str = ""
    band: Band | None = None
    choices: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stranger:
    """A live attempt that the caller did not name. `database_id` says whose it is."""

    attempt_uid: str
    task_id: str
    cluster: str
    database_id: str


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a backend found of the attempts it was asked about.

    `observations` hold what is known of them (Queued, Building, Running or Ended), `unknown` those never seen here.
    """

    observations: tuple[Observation, ...]
    unknown: frozenset[str]
    strangers: tuple[Stranger, ...]


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line, with its newline if there was one; a very long line comes in parts.

    `offset` counts bytes of the attempt's whole output, dropped ones included, so it never shifts.
    `dropped_bytes` were lost just before this line because the output was over its limit.
    """

    offset: int
    time_ms: int
    data: bytes
    dropped_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LogPage:
    """`complete`: the attempt has ended and `next_offset` is the end of its output."""

    lines: tuple[LogLine, ...]
    next_offset: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Honours:
    """What a job asks for that only some engines can give (empty or zero = not asked for)."""

    task_image: str = ""
    container_profile: int = 0
    egress_policy: int = 0
    disk_bytes: int = 0
    gang: bool = False


@dataclass(frozen=True, slots=True)
class Intake:
    """How much an engine takes beyond what is free: `room` more attempts (a gang counts as one) may wait in a
    queue of its own, None = it has none. `closed` says why it takes nothing now, '' = it does."""

    room: int | None = None
    closed: str = ""


class NotRunning(Exception):
    """The attempt does not run (any more), so nothing can be done in it."""


class BackendUnavailable(Exception):
    """The engine cannot be reached now; nothing is known to have happened. Ask again later."""


class Backend(Protocol):
    @property
    def backend_id(self) -> str: ...

    @property
    def kind(self) -> str: ...

    async def start(self, owner: Owner) -> None:
        """Connect to the engine, starting it if need be, and find what already runs there."""
        ...

    async def close(self) -> None:
        """Let go of the engine; running attempts go on."""
        ...

    def summary(self) -> BackendSummary:
        """Shape and capacity now; counts of pending tasks are the controller's to add."""
        ...

    def nodes(self) -> Sequence[NodeFree]:
        """What is free on each machine now, launches already accepted deducted. With a queue of the engine's own
        one entry may stand for several equal machines."""
        ...

    def intake(self) -> Intake:
        """What may be launched now although nothing is free for it."""
        ...

    def refusals(self, request: Honours) -> tuple[str, ...]:
        """Names, as on the wire, of the requested features that this engine cannot honour."""
        ...

    async def launch(self, request: LaunchRequest) -> None:
        """Start an attempt unless one of this uid was ever started here.

        Reserves its capacity before it first awaits. What becomes of it comes through `observe`,
        a refusal too. Raises BackendUnavailable.
        """
        ...

    async def launch_gang(self, requests: Sequence[LaunchRequest]) -> None:
        """Start attempts that only make sense together, as `launch` does each. An engine with a queue of its own
        starts them all at once or none of them."""
        ...

    async def allot_ports(self, requests: Sequence[LaunchRequest]) -> Mapping[str, Mapping[str, int]]:
        """Numbers for the ports that each request names, by attempt uid, so that members of a gang
        can be told of each other before the first starts. Empty where ports mean nothing."""
        ...

    def address(self, node: str) -> str:
        """Where tasks on that node are reached."""
        ...

    async def kill(self, attempt_uid: str) -> None:
        """End the attempt and all it started: asked nicely, then forced after the grace. Returns
        when the kill is under way; the end comes through `observe`. Unknown or ended: nothing."""
        ...

    async def observe(self) -> tuple[Observation, ...]:
        """Wait for news and return all there is, at least one. One caller at a time; cancelling it loses nothing."""
        ...

    async def recover(self, live: Collection[str]) -> Recovery:
        """What is known of the attempts `live`, and which others are alive here."""
        ...

    async def read_log(self, attempt_uid: str, offset: int, max_bytes: int, tail_lines: int = 0) -> LogPage:
        """Output from `offset` on, at most about `max_bytes`. With `tail_lines` > 0 the page starts
        that many lines before the end instead. An unknown uid gives an empty, complete page."""
        ...

    async def wait_log(self, attempt_uid: str, offset: int, timeout_s: float) -> bool:
        """Wait until there is output beyond `offset` or the attempt has ended; False on timeout."""
        ...

    async def exec(self, attempt_uid: str, argv: Sequence[str], timeout_s: float, max_bytes: int) -> ExecResult:
        """Run a command in the attempt's work directory and environment; each output is cut at
        `max_bytes`. Ends with the attempt. Raises NotRunning, BackendUnavailable."""
        ...

    async def list_files(self, attempt_uid: str, path: str, limit: int) -> FileListing:
        """A file, or what a folder below the work directory holds ('' = the work directory), by
        name; links are left out. Raises NoSuchFile."""
        ...

    async def read_file(self, attempt_uid: str, path: str, offset: int, max_bytes: int) -> FileChunk:
        """Part of a file below the work directory. Raises NoSuchFile."""
        ...

    async def forget(self, attempt_uid: str) -> None:
        """Remove the work directory and output of an ended attempt."""
        ...
