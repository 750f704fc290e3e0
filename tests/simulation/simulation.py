"""One seed: some clusters, people at work, faults; then quiet, and everything must come right."""

import asyncio
import random
import shutil
import tempfile
import traceback
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import connectrpc.request

from iris_fed.backends.local.settings import LocalSettings
from iris_fed.federation import feed
from tests.simulation.cluster import Cluster, Plan, settled
from tests.simulation.convergence import alive_though_closed, disagreements, unsettled
from tests.simulation.invariants import Invariants
from tests.simulation.kinds import kinds_of
from tests.simulation.life import Life
from tests.simulation.logs import listen_for_errors
from tests.simulation.loop import Deadlock, Spinning, VirtualLoop, number_everything
from tests.simulation.network import Network, Weather
from tests.simulation.probe import probe
from tests.simulation.readers import Readers
from tests.simulation.serving import Carried, Server
from tests.simulation.storm import Storm
from tests.simulation.users import Users
from tests.simulation.world import Violation, World, running_as

MEMORY = Path("/dev/shm")
GIB = 1024**3
DEFAULT_ACTIONS = 50
ROUND_S = 20.0
MAX_ROUNDS = 60
ROUNDS_TO_CANCEL = 5
TO_AN_END_S = 60.0
WEATHERS = (
    Weather(lose_request=0.0, lose_answer=0.0, hang=0.0, duplicate=0.0, slow=0.0, garbage=0.0),
    Weather(lose_request=0.03, lose_answer=0.03, hang=0.2, duplicate=0.1, slow=0.05, garbage=0.01),
    Weather(lose_request=0.1, lose_answer=0.15, hang=0.4, duplicate=0.4, slow=0.15, garbage=0.05),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one seed came to. `violation` "" = every promise was kept."""

    seed: int
    violation: str
    trace_hash: str
    events: list[str]
    counts: dict[str, int]
    steps: int
    virtual_s: float


def simulate(seed: int, actions: int = DEFAULT_ACTIONS) -> Outcome:
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    number_everything()
    # The RPC library measures its deadlines by the machine's clock.
    setattr(connectrpc.request, "time", types.SimpleNamespace(monotonic=loop.time))  # noqa: B010
    world = World(seed, loop)
    violation = ""
    with _scratch() as directory:
        try:
            loop.run_until_complete(_Simulation(world, directory).run(actions))
        except (Violation, Deadlock, Spinning) as error:
            violation = f"{type(error).__name__}: {error}"
        except Exception:
            violation = f"the simulator itself is broken: {traceback.format_exc()}"
    return Outcome(
        seed, violation, world.trace_hash(), world.events, dict(world.counts), loop.steps, round(loop.time(), 3)
    )


class _Simulation:
    def __init__(self, world: World, directory: Path) -> None:
        self._world = world
        # Of a few rows, so that a full set takes several pages and things happen between them.
        setattr(feed, "PAGE_DELTAS", world.rng.choice((2, 5, 500)))  # noqa: B010
        network = Network(world, world.rng.choice(WEATHERS), self._serving)
        self._clusters = {
            plan.name: Cluster(world, plan, directory / plan.name, network, self._ready)
            for plan in choose_topology(world.rng)
        }
        self._invariants = Invariants(world, self._clusters)
        self._users = users = Users(world, network, self._clusters, self._invariants)
        self._readers = Readers(world, self._clusters, users, self._invariants)
        self._storm = Storm(world, network, self._clusters, users, self._readers)
        self._plain = network.plain = self._invariants.plain = choose_plain(world, self._clusters)
        network.sending = self._invariants.on_sending
        network.answered = self._invariants.on_answered
        network.arriving = self._arriving
        network.served = self._readers.on_served
        listen_for_errors(lambda words: world.fail(f"an error was logged: {words}"))
        world.loop.set_exception_handler(self._unhandled)

    async def run(self, actions: int) -> None:
        for cluster in self._clusters.values():
            cluster.start()
        self._world.loop.on_step = self._after_step
        await self._storm.run(actions)
        await self._storm.calm()
        await self._come_right()
        await probe(self._clusters, self._users, self._plain)
        for cluster in self._clusters.values():
            cluster.stop()
        await self._end()

    def _after_step(self) -> bool:
        self._invariants.after_step()
        return self._storm.after_step()

    async def _come_right(self) -> None:
        problems: list[str] = []
        for round_number in range(MAX_ROUNDS):
            await asyncio.sleep(ROUND_S)
            problems = unsettled(self._clusters) or disagreements(self._clusters, self._plain)
            if not problems:
                return
            strays = alive_though_closed(self._clusters, self._plain) if round_number >= ROUNDS_TO_CANCEL else []
            if strays:
                raise Violation(strays[0])
        raise Violation("it does not come right: " + "; ".join(problems[:5]))

    async def _end(self) -> None:
        late = await settled(list(self._clusters.values()), TO_AN_END_S)
        tasks = [cluster.life.task for cluster in self._clusters.values() if cluster.life is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=TO_AN_END_S)
        self._world.raise_failures()
        if late or not all(task.done() for task in tasks):
            raise Violation(f"a controller does not end: {late}")

    def _serving(self, name: str) -> Server | None:
        return self._clusters[name].running

    def _arriving(self, request: Carried) -> None:
        self._invariants.losses.on_arriving(request)
        self._storm.on_arriving(request)

    def _ready(self, life: Life) -> None:
        self._world.note("ready", life.name)

    def _unhandled(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        life = running_as.get()
        if life is None or not life.dead:
            self._world.fail(f"nobody took {context.get('exception')!r}: {context['message']}")


def choose_topology(rng: random.Random) -> list[Plan]:
    """Three clusters that hand jobs to each other, and sometimes one that knows nobody."""
    hub_peers, lab_peers, gpu_peers = rng.choice(
        (
            (("lab", "gpu"), (), ()),
            (("lab",), ("gpu",), ()),
            (("lab", "gpu"), ("gpu",), ()),
            (("lab", "gpu"), ("hub",), ()),
        )
    )
    peers = {"hub": hub_peers, "lab": lab_peers, "gpu": gpu_peers}
    if rng.random() < 0.25:
        peers["solo"] = ()
    return [
        Plan(name, _machine(name), own, tuple(one for one, theirs in peers.items() if name in theirs))
        for name, own in peers.items()
    ]


def choose_plain(world: World, clusters: Mapping[str, Cluster]) -> frozenset[tuple[str, str]]:
    """Who speaks with whom without our extensions, by chance of its own."""
    if not kinds_of(world.seed).plain:
        return frozenset()
    pairs = [(cluster.name, peer) for cluster in clusters.values() for peer in cluster.plan.peers]
    pair = random.Random(f"plain {world.seed}").choice(pairs)
    world.note("plain", f"{pair[0]}>{pair[1]}")
    return frozenset({pair})


def _machine(name: str) -> LocalSettings:
    return LocalSettings(
        backend_id="gpus" if name == "gpu" else "cpus",
        name=f"{name}-node",
        cpu_millicores=3_000,
        memory_bytes=32 * GIB,
        devices={"h100": 6} if name == "gpu" else {},
    )


@contextmanager
def _scratch() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="iris-fed-simulation-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
