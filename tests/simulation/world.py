"""What everything in one simulation shares: chance, time, the trace, and what was found to be wrong."""

import hashlib
import random
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field

from tests.simulation.loop import VirtualLoop

EPOCH_MS = 1_700_000_000_000
MAX_EVENTS = 200_000


class Violation(Exception):
    """A promise was broken."""


@dataclass
class World:
    """`jump_ms` is how far all wall clocks have been moved on, beyond the time that passed in the loop."""

    seed: int
    loop: VirtualLoop
    rng: random.Random = field(init=False)
    jump_ms: int = 0
    storm: bool = True
    events: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(f"simulation {self.seed}")

    def now_ms(self) -> int:
        return EPOCH_MS + self.jump_ms + int(self.loop.time() * 1000)

    def note(self, kind: str, words: str) -> None:
        """A line of the trace."""
        self.counts[kind] += 1
        if len(self.events) < MAX_EVENTS:
            self.events.append(f"{self.loop.time():12.6f} #{self.loop.steps:<7} {kind:<10} {words}")

    def fail(self, words: str) -> None:
        """Noted here and raised between two steps: what is broken may run in code that catches everything."""
        self.note("VIOLATION", words)
        self.violations.append(words)

    def raise_failures(self) -> None:
        if self.violations:
            raise Violation("; ".join(self.violations[:3]))

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def trace_hash(self) -> str:
        return hashlib.sha256("\n".join(self.events).encode()).hexdigest()[:16]


class WallClock:
    """A cluster's own idea of the time."""

    def __init__(self, world: World, skew_ms: int) -> None:
        self._world = world
        self._skew_ms = skew_ms

    def now_ms(self) -> int:
        return self._world.now_ms() + self._skew_ms


class SeededEntropy:
    """Looks as unguessable as the real one; goes on through every restart of its cluster."""

    def __init__(self, seed: str) -> None:
        self._rng = random.Random(seed)

    def token(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"

    def jitter(self) -> float:
        return self._rng.random()


class Mortal:
    """Something that runs and may have died: `dead` code has no effect any more."""

    dead: bool = False


running_as: ContextVar[Mortal | None] = ContextVar("running_as", default=None)
"""Whose code the current task is."""
