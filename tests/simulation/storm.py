"""What goes on in a simulation: people at work, and faults at any moment."""

import asyncio
import traceback
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from iris_fed.backends.base import LaunchRequest
from tests.simulation.cluster import Cluster
from tests.simulation.kinds import kinds_of
from tests.simulation.network import Network
from tests.simulation.readers import Readers
from tests.simulation.serving import Carried
from tests.simulation.users import Users
from tests.simulation.world import World

MEAN_PAUSES_S = (0.5, 1.5, 4.0)
BOTH_ENDS = 0.3
MAX_DOWN_S = 30.0
GONE_FOR_S = (20.0, 100.0, 400.0)
MAX_STEPS_TO_CRASH = 150
MAX_AT_ONCE = 30
HOUR_MS = 3_600_000
JUMPS_MS = (HOUR_MS // 6, 2 * HOUR_MS, 24 * HOUR_MS, 24 * 4 * HOUR_MS, 24 * 31 * HOUR_MS)
SHORT_OF_LOST_S = 40.0
WILD = 0.5
"""Of the seeds, in which databases get lost."""
WIPE_AT_CRASH = 0.15
MOMENTS = frozenset({"LaunchJob", "TerminateJob", "FederationSync"})
Work = Callable[[Cluster], None]


class Storm:
    """`after_step` carries out crashes that are due; it returns True when it did something."""

    def __init__(
        self,
        world: World,
        network: Network,
        clusters: Mapping[str, Cluster],
        users: Users,
        readers: Readers,
    ) -> None:
        self._world = world
        self._network = network
        self._clusters = clusters
        self._users = users
        self._readers = readers
        self._doomed: dict[str, int] = {}
        self._at_work: set[asyncio.Task[None]] = set()
        self._copies: dict[str, Path] = {}
        self._backups: dict[str, Path] = {}
        self._crash_near = world.rng.choice((0.0, 0.02, 0.08))
        self._wild = world.rng.random() < WILD
        for cluster in clusters.values():
            self._watch_tasks(cluster)

    async def run(self, actions: int) -> None:
        rng = self._world.rng
        names, weights = self._choices()
        pause_s = rng.choice(MEAN_PAUSES_S)
        for _ in range(actions):
            await asyncio.sleep(rng.expovariate(1 / pause_s))
            kind = rng.choices(names, weights)[0]
            cluster = rng.choices(list(self._clusters.values()), [4, 2, 2, 1][: len(self._clusters)])[0]
            if len(self._at_work) < MAX_AT_ONCE:
                getattr(self, f"_{kind}")(cluster)

    def after_step(self) -> bool:
        due = [name for name, step in self._doomed.items() if step <= self._world.loop.steps]
        for name in due:
            del self._doomed[name]
            cluster = self._clusters[name]
            if cluster.life is not None:
                cluster.crash()
                if self._wild and not cluster.swapped and self._world.chance(WIPE_AT_CRASH):
                    cluster.wipe()
                self._start_later(cluster)
        return bool(due)

    def on_arriving(self, request: Carried) -> None:
        """A message is a good moment for either end to crash."""
        matters = request.source != "user" and request.method in MOMENTS
        if matters and self._world.storm and self._world.chance(self._crash_near):
            ends = (request.source, request.target)
            for name in ends if self._world.chance(BOTH_ENDS) else (self._world.rng.choice(ends),):
                self._doom(name, MAX_STEPS_TO_CRASH // 3)

    async def calm(self) -> None:
        """No more faults; everybody is up."""
        self._world.storm = False
        self._doomed.clear()
        self._network.mend()
        for cluster in self._clusters.values():
            cluster.engine.unavailable = False
            self._swap_in(cluster)
        while self._at_work:
            await asyncio.wait(self._at_work)
        for cluster in self._clusters.values():
            self._start(cluster)

    def _choices(self) -> tuple[list[str], list[float]]:
        weights = {
            "submit": 50.0,
            "cancel": 14.0,
            "read": 5.0,
            "crash": 8.0,
            "stop": 3.0,
            "cut": 5.0,
            "outage": 3.0,
            "jump": 2.0,
        }
        kinds = kinds_of(self._world.seed)
        if kinds.forgets:
            weights["forget"] = 5.0
        if kinds.reads:
            weights |= {"logs": 7.0, "story": 4.0}
        if self._wild:
            weights |= {"wipe": 1.5, "back_up": 2.0, "restore": 1.5, "swap": 2.0, "copy": 0.7, "put_back": 0.5}
        return list(weights), list(weights.values())

    # --- actions ---

    def _submit(self, cluster: Cluster) -> None:
        self._go(self._users.submit(cluster))

    def _cancel(self, cluster: Cluster) -> None:
        self._go(self._users.cancel(cluster))

    def _read(self, cluster: Cluster) -> None:
        self._go(self._users.read(cluster))

    def _logs(self, cluster: Cluster) -> None:
        self._go(self._readers.logs(cluster))

    def _story(self, cluster: Cluster) -> None:
        self._go(self._readers.story(cluster))

    def _forget(self, cluster: Cluster) -> None:
        """Of a peer that is there all the time, comes back after a while, or comes back with nothing."""
        cluster, peer = self._users.pair_to_part()
        chance = self._world.rng.random()
        if chance < 0.5:
            self._cut_off(cluster.name, peer, self._world.rng.choice(GONE_FOR_S), both=True)
        elif chance < 0.7 and self._wild:
            self._wipe(self._clusters[peer])
        self._go(self._users.forget(cluster, peer))

    def _crash(self, cluster: Cluster) -> None:
        self._doom(cluster.name, MAX_STEPS_TO_CRASH)

    def _stop(self, cluster: Cluster) -> None:
        if cluster.life is not None:
            self._when_down(cluster, self._start_later)

    def _cut(self, cluster: Cluster) -> None:
        rng = self._world.rng
        other = rng.choice([one for one in self._clusters if one != cluster.name])
        for_s = rng.choice((3.0, 20.0, 90.0, 200.0)) * rng.random()
        both = rng.random() < 0.5
        self._cut_off(cluster.name, other, for_s, both=both)

    def _outage(self, cluster: Cluster) -> None:
        self._world.note("outage", cluster.name)
        cluster.engine.unavailable = True
        self._world.loop.call_later(self._world.rng.random() * 30, self._end_outage, cluster)

    def _end_outage(self, cluster: Cluster) -> None:
        cluster.engine.unavailable = False

    def _jump(self, cluster: Cluster) -> None:
        by_ms = self._world.rng.choice(JUMPS_MS)
        self._world.note("jump", f"{by_ms / HOUR_MS:.1f} h")
        self._world.jump_ms += by_ms

    def _wipe(self, cluster: Cluster) -> None:
        self._replace_database(cluster, Cluster.wipe)

    def _back_up(self, cluster: Cluster) -> None:
        if cluster.running is not None and not cluster.swapped:
            self._backups[cluster.name] = cluster.back_up()

    def _restore(self, cluster: Cluster) -> None:
        if cluster.name in self._backups:
            self._replace_database(cluster, lambda cluster: cluster.restore(self._backups[cluster.name]))

    def _swap(self, cluster: Cluster) -> None:
        """For a time that is mostly too short for anything to be given up."""
        self._replace_database(cluster, Cluster.swap_out)
        self._world.loop.call_later(self._world.rng.uniform(10.0, SHORT_OF_LOST_S), self._swap_in, cluster)

    def _swap_in(self, cluster: Cluster) -> None:
        if cluster.swapped:
            self._stop_for(cluster, Cluster.swap_in)

    def _copy(self, cluster: Cluster) -> None:
        if cluster.running is not None and not cluster.swapped:
            self._copies[cluster.name] = cluster.save_copy()

    def _put_back(self, cluster: Cluster) -> None:
        if cluster.name in self._copies:
            self._replace_database(cluster, lambda cluster: cluster.put_back(self._copies[cluster.name]))

    def _replace_database(self, cluster: Cluster, replace: Work) -> None:
        def then(cluster: Cluster) -> None:
            if not cluster.swapped:
                replace(cluster)

        self._stop_for(cluster, then)

    def _stop_for(self, cluster: Cluster, work: Work) -> None:
        def then(cluster: Cluster) -> None:
            work(cluster)
            self._start_later(cluster)

        self._when_down(cluster, then)

    # --- how ---

    def _cut_off(self, name: str, other: str, for_s: float, *, both: bool) -> None:
        self._world.note("cut", f"{name} {'<>' if both else '>'} {other} {for_s:.1f} s")
        self._network.cut(name, other, for_s)
        if both:
            self._network.cut(other, name, for_s)

    def _doom(self, name: str, within_steps: int) -> None:
        at = self._world.loop.steps + self._world.rng.randrange(1, within_steps)
        self._doomed.setdefault(name, at)

    def _start_later(self, cluster: Cluster) -> None:
        self._world.loop.call_later(self._world.rng.random() ** 2 * MAX_DOWN_S, self._start, cluster)

    def _start(self, cluster: Cluster) -> None:
        if cluster.life is None:
            cluster.start()

    def _when_down(self, cluster: Cluster, then: Work) -> None:
        async def wait() -> None:
            while cluster.life is not None:
                cluster.stop()
                await asyncio.wait([cluster.life.task])
                await asyncio.sleep(0)
            then(cluster)

        self._go(wait())

    def _watch_tasks(self, cluster: Cluster) -> None:
        told = cluster.engine.on_launch

        def on_launch(request: LaunchRequest) -> None:
            told(request)
            if self._world.storm and self._users.wants_child(request):
                soon_s = self._world.rng.random() * 5
                self._world.loop.call_later(soon_s, self._submit_child, cluster, request)

        cluster.engine.on_launch = on_launch

    def _submit_child(self, cluster: Cluster, task: LaunchRequest) -> None:
        self._go(self._users.submit_child(cluster, task))

    def _go(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._at_work.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._at_work.discard(task)
        if not task.cancelled() and task.exception() is not None:
            trace = "".join(traceback.format_exception(task.exception())[-3:])
            self._world.fail(f"a user met {task.exception()!r}: {trace}")
