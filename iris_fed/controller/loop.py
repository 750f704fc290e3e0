"""The control loop: kill what must end, place what waits, start what was placed.

It runs when something happened; the interval is only a safety net. Everything it decides is
committed before it acts, so that a crash between the two is repaired by the recovery it starts with.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import anyio
from anyio.abc import TaskGroup

from iris_fed.backends.base import Backend, BackendUnavailable, Owner
from iris_fed.config.sections import SchedulingSettings
from iris_fed.controller.disk import DiskGuard
from iris_fed.controller.launching import Launch, TaskLink, honours_of, with_siblings
from iris_fed.controller.observe import store_observations
from iris_fed.controller.placing import Terms, place_waiting
from iris_fed.controller.recovery import Apply, Recoverer, never_started
from iris_fed.decide.backoff import backoff_ms
from iris_fed.decide.placement import Place
from iris_fed.model.observed import Ended, Observation
from iris_fed.model.resources import BackendSummary
from iris_fed.model.spec import JobSpec
from iris_fed.store.jobs import live_attempts
from iris_fed.store.runtime import Runtime
from iris_fed.supervise import Pulse, Wakeup
from iris_fed.telemetry import get_logger

RETRY_BASE_MS = 200
RETRY_MAX_MS = 10_000
ASK_AGAIN_S = 30.0
"""A backend without news is asked anew, in case the call hangs."""
SLOW_LAUNCH_S = 60.0
CALL_LIMIT_S = 600.0
"""Of a launch (it may unpack a large workspace) or a kill; then it is logged and tried again."""

log = get_logger(__name__)


class ControlLoop:
    """Drives the backends. `wake` after anything it should look at."""

    def __init__(
        self,
        runtime: Runtime,
        backends: Mapping[str, Backend],
        owner: Owner,
        link: TaskLink,
        settings: SchedulingSettings,
        disk: DiskGuard,
    ) -> None:
        self._runtime = runtime
        self._db = runtime.db
        self._clock = runtime.clock
        self._entropy = runtime.entropy
        self._signals = runtime.signals
        self._backends = backends
        self._link = link
        self._recoverer = Recoverer(runtime, backends, owner, link)
        self._safety_interval_s = settings.safety_interval_s
        self._disk = disk
        self._hold_after_ms = int(settings.hold_after_s * 1000)
        self._unlaunched: dict[str, Launch] = {}
        self._launching: dict[str, float] = {}
        self._launch_tries = 0
        self._killed: set[str] = set()
        self._unstarted: set[str] = set()
        self._taken: dict[str, Sequence[Observation]] = {}
        self._group: TaskGroup | None = None
        self.wake = Wakeup()

    async def run(self) -> None:
        """Until cancelled."""
        async with anyio.create_task_group() as group:
            self._group = group
            supervise = self._runtime.loops.supervise
            for backend in self._backends.values():
                group.start_soon(supervise, f"observe {backend.backend_id}", partial(self._observe, backend))
            group.start_soon(supervise, "control", self._control)

    def notes(self) -> tuple[str, ...]:
        """What an operator should know of the backends: who else takes their capacity, what they do not answer."""
        now = anyio.current_time()
        slow = [
            f"attempt {uid} has been starting for {now - since:.0f} s"
            for uid, since in sorted(self._launching.items())
            if now - since > SLOW_LAUNCH_S
        ]
        return (*self._recoverer.notes(), *slow)

    def local_backends(self) -> tuple[BackendSummary, ...]:
        """What the backends say of themselves now."""
        return tuple(backend.summary() for backend in self._backends.values())

    def refusals(self, spec: JobSpec) -> tuple[str, ...]:
        """Wire names of what the job asks for that no backend here honours; none = some backend does."""
        found = [backend.refusals(honours_of(spec)) for backend in self._backends.values()]
        return () if not found or not all(found) else found[0]

    async def forget(self, attempt_uids: Iterable[str]) -> None:
        """Remove what attempts of jobs that are no more left behind."""
        for uid in attempt_uids:
            for backend in self._backends.values():
                try:
                    await backend.forget(uid)
                except (BackendUnavailable, OSError) as error:
                    # The job that took the name is written already; this is only untidy.
                    log.warning("files.not_removed", attempt=uid, error=str(error))

    async def _control(self, pulse: Pulse) -> None:
        apply = partial(store_observations, self._runtime, trying=pulse.beat)
        starting = self._unlaunched.keys() | self._launching.keys()
        self._unlaunched |= await self._recoverer.run(starting, apply, self.wake, pulse)
        refresh = True
        while True:
            pulse.beat()
            wait_s = min(await self._pass(refresh, apply), self._safety_interval_s)
            pulse.beat(wait_s)
            refresh = not await self.wake.wait(wait_s)

    async def _pass(self, refresh_reasons: bool, apply: Apply) -> float:
        """1. Kill. 2. Start what could not be started before. 3. Place and start. Returns seconds to the next.

        Neither starting nor killing is waited for: a workspace that takes long to unpack holds up nobody.
        """
        await self._kill(apply)
        await self._launch_all()
        places = [Place(backend.summary(), tuple(backend.nodes())) for backend in self._backends.values()]
        terms = Terms(
            self._clock.now_ms(),
            self._entropy,
            self._link,
            self._hold_after_ms,
            refresh_reasons,
            self._disk.refusal(),
        )
        done = await self._db.write(lambda tx: place_waiting(tx, places, terms))
        self._signals.publish(done.changed)
        if done.launches:
            # Kept before anything can go wrong: what is committed is started, now or later.
            self._unlaunched |= {launch.request.attempt_uid: launch for launch in done.launches}
            await self._launch_all()
        if done.full:
            return 0.0
        timer_s = float("inf") if done.next_ms is None else (done.next_ms - self._clock.now_ms()) / 1000
        return max(0.0, timer_s)

    async def _kill(self, apply: Apply) -> None:
        doomed = await self._db.read(lambda tx: live_attempts(tx, to_kill_only=True))
        self._killed &= {attempt.attempt_uid for attempt in doomed}
        for attempt in doomed:
            backend = self._backends.get(attempt.backend_id)
            if backend is None or attempt.attempt_uid in self._killed:
                continue
            uid = attempt.attempt_uid
            if uid not in self._launching and self._unlaunched.pop(uid, None) is not None:
                self._unstarted.add(uid)
            if uid in self._unstarted:
                await apply([never_started(uid, self._clock.now_ms())])
                self._unstarted.discard(uid)
                continue
            self._killed.add(uid)
            self._background.start_soon(self._kill_one, backend, uid)

    @property
    def _background(self) -> TaskGroup:
        assert self._group is not None
        return self._group

    async def _kill_one(self, backend: Backend, uid: str) -> None:
        try:
            with anyio.fail_after(CALL_LIMIT_S):
                await backend.kill(uid)
        except Exception as error:
            log.warning("attempt.not_killed", attempt=uid, exc_info=error)
            await anyio.sleep(RETRY_MAX_MS / 1000)
            self._killed.discard(uid)
            self.wake()

    async def _acquaint(self) -> None:
        """Tell members of a gang where to find each other, all at once and only once."""
        gangs: dict[str, list[Launch]] = {}
        for launch in self._unlaunched.values():
            if launch.gang:
                gangs.setdefault(launch.gang, []).append(launch)
        for members in gangs.values():
            members.sort(key=lambda member: member.task_index)
            backend = self._backends[members[0].backend_id]
            ports = await backend.allot_ports([member.request for member in members])
            addresses = [backend.address(member.request.node) for member in members]
            told = with_siblings(members, addresses, ports)
            self._unlaunched |= {member.request.attempt_uid: member for member in told}

    async def _launch_all(self) -> None:
        """Begin to start every attempt that is committed and not being started."""
        await self._acquaint()
        for uid, launch in list(self._unlaunched.items()):
            if uid not in self._launching:
                self._launching[uid] = anyio.current_time()
                self._background.start_soon(self._launch_one, launch)
        # Each reserves its capacity before it first waits, so that the next pass sees what is left.
        await anyio.lowlevel.checkpoint()

    async def _launch_one(self, launch: Launch) -> None:
        uid = launch.request.attempt_uid
        try:
            with anyio.fail_after(CALL_LIMIT_S):
                await self._backends[launch.backend_id].launch(launch.request)
            self._unlaunched.pop(uid, None)
            self._launch_tries = 0
        except Exception as error:
            if isinstance(error, BackendUnavailable):
                log.warning("backend.unavailable", backend=launch.backend_id, error=str(error))
            else:
                log.error("launch.failed", attempt=uid, exc_info=error)
            self._launch_tries += 1
            wait_ms = backoff_ms(self._launch_tries, RETRY_BASE_MS, RETRY_MAX_MS, self._entropy.jitter())
            await anyio.sleep(wait_ms / 1000)
            self.wake()
        finally:
            del self._launching[uid]

    async def _observe(self, backend: Backend, pulse: Pulse) -> None:
        while True:
            pulse.beat(ASK_AGAIN_S)
            if not self._taken.get(backend.backend_id):
                with anyio.move_on_after(ASK_AGAIN_S):
                    self._taken[backend.backend_id] = await backend.observe()
            # Kept until it is stored: a backend tells it only once.
            if batch := self._taken.get(backend.backend_id):
                await store_observations(self._runtime, batch, pulse.beat)
                del self._taken[backend.backend_id]
                self._recoverer.forget(seen.attempt_uid for seen in batch if isinstance(seen, Ended))
                self.wake()
