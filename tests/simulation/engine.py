"""An engine that runs attempts as the seed plans, and remembers what it was told to do."""

from collections.abc import Callable

from iris_fed.backends.base import (
    AttemptEnd,
    BackendUnavailable,
    EndKind,
    LaunchRequest,
    Owner,
)
from iris_fed.backends.local.settings import LocalSettings
from iris_fed.backends.scripted import ScriptedBackend, ScriptedEngine
from iris_fed.clock import Clock
from tests.simulation.world import World

SLOWEST_KILL_S = 20.0
LONGEST_S = 300.0


def line_of(uid: str) -> bytes:
    """What an attempt prints: who it is."""
    return f"this is {uid}\n".encode()


class PlannedEngine(ScriptedEngine):
    """`on_launch` and `on_kill` are told first. Attempts go on whatever becomes of the controller."""

    def __init__(self, world: World, cluster: str, clock: Clock, settings: LocalSettings) -> None:
        super().__init__(clock, settings)
        self._world = world
        self._cluster = cluster
        self.on_launch: Callable[[LaunchRequest], None] = lambda request: None
        self.on_kill: Callable[[str], None] = lambda uid: None
        self.auto = self._plan

    def kill(self, uid: str) -> None:
        self.on_kill(uid)
        self._world.note("kill", f"{self._cluster} {self.attempts[uid].request.task_id} {uid[:6]}")
        self.kills.append(uid)
        slowly_s = self._world.rng.random() * SLOWEST_KILL_S if self._world.chance(0.4) else 0.0
        end = AttemptEnd(EndKind.KILLED, 143, 15, "killed on request")
        if slowly_s:
            self._world.loop.call_later(slowly_s, self.end_as, uid, end)
        else:
            self.end(uid, end)

    def end_as(self, uid: str, end: AttemptEnd) -> None:
        """Unless it is over and forgotten."""
        attempt = self.attempts.get(uid)
        if attempt is not None and attempt.end is None:
            self._world.note("ends", f"{self._cluster} {attempt.request.task_id} {uid[:6]} {end.kind} {end.exit_code}")
            self.end(uid, end)

    def alive(self) -> list[str]:
        return [uid for uid, attempt in self.attempts.items() if attempt.end is None]

    def owner(self, uid: str) -> Owner:
        return self.attempts[uid].owner

    def _plan(self, request: LaunchRequest) -> AttemptEnd | None:
        uid = request.attempt_uid
        self._world.note("launch", f"{self._cluster} {request.task_id} {uid[:6]}")
        self.attempts[uid].output.write(line_of(uid), self._clock.now_ms())
        self.on_launch(request)
        rng = self._world.rng
        after_s, end = _choose_end(self._world)
        if after_s <= 0:
            return end
        rng.random()
        self._world.loop.call_later(after_s, self.end_as, uid, end)
        return None


def _choose_end(world: World) -> tuple[float, AttemptEnd]:
    rng = world.rng
    soon_s = rng.expovariate(1 / 6)
    chance = rng.random()
    success = AttemptEnd(EndKind.EXITED, 0)
    for below, after_s, end in (
        (0.40, soon_s, success),
        (0.48, 0.0, success),
        (0.60, soon_s, AttemptEnd(EndKind.EXITED, rng.randrange(1, 100))),
        (0.64, 0.0, AttemptEnd(EndKind.NOT_STARTED, 127, message="no such program")),
        (0.72, soon_s, AttemptEnd(EndKind.PREEMPTED, message="was preempted")),
        (0.78, soon_s, AttemptEnd(EndKind.LOST, message="its node was lost")),
        (0.84, soon_s, AttemptEnd(EndKind.SIGNALED, 137, 9)),
    ):
        if chance < below:
            return after_s, end
    return rng.uniform(20.0, LONGEST_S), success


class SeveredBackend(ScriptedBackend):
    """One life's hold on an engine. Severed, it holds an empty one: nothing it does has an effect."""

    def sever(self) -> None:
        engine = self.engine
        if engine.listener == self._news.add:
            engine.listener = None
        self.engine = ScriptedEngine(self._clock, engine.settings)
        self.engine.unavailable = True

    async def forget(self, attempt_uid: str) -> None:
        if self.engine.unavailable:
            raise BackendUnavailable("the engine cannot be reached")
        await super().forget(attempt_uid)
