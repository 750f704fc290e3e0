"""What a backend observes of attempts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from iris_fed.model.resources import Usage


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
    CANCELLED = "CANCELLED"
    LOST = "LOST"


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How an attempt ended.

    EXITED has `exit_code` 0-255. SIGNALED has `signal` and the shell's `exit_code` 128+n. KILLED
    answers our own `kill`. NOT_STARTED is the attempt's own fault (no such program: 127, not
    executable: 126) and will not go better next time. NO_CAPACITY never started and may be placed again.
    CANCELLED: somebody at the engine ended it, not we. LOST: the engine cannot say; the exit code is
    unknown. `message` is one sentence for a person.
    """

    kind: EndKind
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Queued:
    """The engine has accepted the attempt and has not started it: `reason` goes on from "waiting in its queue: "."""

    attempt_uid: str
    reason: str


@dataclass(frozen=True, slots=True)
class Building:
    """The attempt has started with its setup commands; Running follows when they are done."""

    attempt_uid: str
    started_ms: int
    node: str
    address: str = ""
    devices: tuple[int, ...] = ()
    ports: Mapping[str, int] = field(default_factory=dict)


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


Observation = Queued | Building | Running | Ended | Sampled
