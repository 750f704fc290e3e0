"""What the controller asks of an engine that runs attempts. One conformance suite tests them all.

A backend knows attempts, by uid, and nothing of jobs' fates, databases or federation. It may be
asked the same thing twice: everything here is idempotent by attempt uid.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from iris_fed.model.resources import BackendSummary, NodeFree, Resources, Usage


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose attempts these are: every attempt is tagged with it (design, section 8)."""

    cluster: str
    database_id: str
    ancestor_ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One attempt to start. `argv[0]` is looked up in the task's PATH.

    `env` is complete but for what only the backend knows: it adds IRIS_WORKDIR,
    IRIS_ADVERTISE_HOST, IRIS_PORT_<NAME> for each of `ports`, and the device variables.
    `timeout_ms` runs from the start of the process; None = no limit.
    """

    attempt_uid: str
    task_id: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    resources: Resources
    ports: tuple[str, ...] = ()
    timeout_ms: int | None = None
    node: str = ""


class EndKind(StrEnum):
    """Why an attempt is over; the controller maps it to a state and a retry budget."""

    EXITED = "EXITED"
    SIGNALED = "SIGNALED"
    KILLED = "KILLED"
    TIMED_OUT = "TIMED_OUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    PREEMPTED = "PREEMPTED"
    NOT_STARTED = "NOT_STARTED"
    NO_CAPACITY = "NO_CAPACITY"
    LOST = "LOST"


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How an attempt ended.

    EXITED has `exit_code` 0-255. SIGNALED has `signal` and the shell's `exit_code` 128+n. KILLED
    answers our own `kill`. NOT_STARTED is the attempt's own fault (no such program: 127, not
    executable: 126) and will not go better next time. NO_CAPACITY never started and may be placed again.
    LOST: the engine cannot say; the exit code is unknown. `message` is one sentence for a person.
    """

    kind: EndKind
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """The attempt's process runs. `devices` are the indexes it was given, `ports` the numbers by name."""

    attempt_uid: str
    started_ms: int
    node: str
    address: str = ""
    devices: tuple[int, ...] = ()
    ports: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ended:
    """The attempt is over and nothing of it runs any more. `started_ms` None = it never ran."""

    attempt_uid: str
    end: AttemptEnd
    started_ms: int | None
    finished_ms: int
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Sampled:
    """What the attempt uses now."""

    attempt_uid: str
    usage: Usage


Observation = Running | Ended | Sampled


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

    `observations` hold what is known of them (Running, or Ended), `unknown` those never seen here.
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
        """What is free on each machine now, launches already accepted deducted."""
        ...

    def refusals(self, request: "Honours") -> tuple[str, ...]:
        """Names, as on the wire, of the requested features that this engine cannot honour."""
        ...

    async def launch(self, request: LaunchRequest) -> None:
        """Start an attempt unless one of this uid was ever started here.

        Reserves its capacity before it first awaits. What becomes of it comes through `observe`,
        a refusal too. Raises BackendUnavailable.
        """
        ...

    async def kill(self, attempt_uid: str) -> None:
        """End the attempt and all it started: asked nicely, then forced after the grace. Returns
        when the kill is under way; the end comes through `observe`. Unknown or ended: nothing."""
        ...

    async def observe(self) -> tuple[Observation, ...]:
        """Wait for news and return all there is, at least one. One caller at a time."""
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

    async def forget(self, attempt_uid: str) -> None:
        """Remove the work directory and output of an ended attempt."""
        ...


@dataclass(frozen=True, slots=True)
class Honours:
    """What a job asks for that only some engines can give (empty or zero = not asked for)."""

    task_image: str = ""
    container_profile: int = 0
    egress_policy: int = 0
    disk_bytes: int = 0
    gang: bool = False
