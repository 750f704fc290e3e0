"""The control loop: kill what must end, place what waits, start what was placed.

It runs when something happened; the interval is only a safety net. Everything it decides is
committed before it acts, so that a crash between the two is repaired when the backend is met again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import anyio

from iris_fed.backends.base import Backend, BackendUnavailable, Owner
from iris_fed.config.sections import SchedulingSettings
from iris_fed.controller.attempts import AttemptDriver
from iris_fed.controller.disk import DiskGuard
from iris_fed.controller.launching import Launch, TaskLink, honours_of, never_started
from iris_fed.controller.observe import store_observations
from iris_fed.controller.placing import Terms, place_waiting
from iris_fed.controller.recovery import Apply, Recoverer
from iris_fed.decide.placement import Place
from iris_fed.model.ids import parse_task_id
from iris_fed.model.observed import Ended, Observation
from iris_fed.model.resources import BackendSummary, without_times
from iris_fed.model.spec import JobSpec
from iris_fed.store.jobs import live_attempts
from iris_fed.store.runtime import Runtime
from iris_fed.supervise import Pulse, Wakeup
from iris_fed.telemetry import get_logger

FIRST_MEETING_S = 5.0
"""What waits is not told what it waits for before the backends had this time to be met."""
ASK_AGAIN_S = 30.0
"""A backend without news is asked anew, in case the call hangs."""

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
        self._taken: dict[str, Sequence[Observation]] = {}
        self._shown: Sequence[BackendSummary] | None = None
        self.wake = Wakeup()
        self._driver = AttemptDriver(backends, runtime.entropy, self.wake)

    async def start_backends(self) -> None:
        """As far as they can be reached; `run` goes on with the others. Raises OSError."""
        await self._recoverer.start_all()

    async def run(self) -> None:
        """Until cancelled."""
        async with anyio.create_task_group() as group:
            self._driver.group = group
            supervise = self._runtime.loops.supervise
            for backend in self._backends.values():
                group.start_soon(supervise, f"observe {backend.backend_id}", partial(self._observe, backend))
            group.start_soon(supervise, "control", self._control)

    def notes(self) -> tuple[str, ...]:
        """What an operator should know of the backends: who else takes their capacity, what they do not answer."""
        met = [backend for backend in self._backends.values() if backend.backend_id in self._recoverer.met]
        away = tuple(f"backend {one.backend_id}: {why}" for one in met if (why := one.intake().closed))
        return self._recoverer.notes() + away + self._driver.slow()

    def local_backends(self) -> tuple[BackendSummary, ...]:
        """What the backends say of themselves now."""
        return tuple(replace(backend.summary(), trouble=self._closed(backend)) for backend in self._backends.values())

    def _closed(self, backend: Backend) -> str:
        return self._recoverer.closed(backend.backend_id) or backend.intake().closed

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
        pulse.beat(FIRST_MEETING_S)
        with anyio.move_on_after(FIRST_MEETING_S):
            await self._recoverer.all_met.wait()
        refresh = True
        while True:
            pulse.beat()
            wait_s = min(await self._pass(refresh, apply), self._safety_interval_s)
            pulse.beat(wait_s)
            refresh = not await self.wake.wait(wait_s)

    async def _pass(self, refresh_reasons: bool, apply: Apply) -> float:
        """1. Kill. 2. Start what could not be started before. 3. Place and start. Returns seconds to the next."""
        await self._kill(apply)
        await self._driver.start_all()
        places = [self._place(backend) for backend in self._backends.values()]
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
            self._driver.add(done.launches)
            self._trace(done.launches)
            await self._driver.start_all()
        self._tell_backends()
        if done.full:
            return 0.0
        timer_s = float("inf") if done.next_ms is None else (done.next_ms - self._clock.now_ms()) / 1000
        return max(0.0, timer_s)

    def _trace(self, launches: Iterable[Launch]) -> None:
        tracing = self._runtime.tracing
        for launch in launches:
            uid, task = launch.request.attempt_uid, launch.request.task_id
            with tracing.span("attempt started", str(parse_task_id(task)[0]), task=task, attempt=uid):
                tracing.remember(uid)

    def _tell_backends(self) -> None:
        shown = without_times(self.local_backends())
        if shown != self._shown:
            self._shown = shown
            self._runtime.news.publish(backends=True)

    async def _kill(self, apply: Apply) -> None:
        live = await self._db.read(lambda tx: live_attempts(tx, to_kill_only=True))
        # Of the others is told when they are met.
        doomed = [attempt for attempt in live if attempt.backend_id in self._recoverer.met]
        for uid in self._driver.end_all(doomed):
            await apply([never_started(uid, self._clock.now_ms())])
            self._driver.drop(uid)

    async def _observe(self, backend: Backend, pulse: Pulse) -> None:
        if backend.backend_id not in self._recoverer.met:
            apply = partial(store_observations, self._runtime, trying=pulse.beat)
            news = partial(self._take_news, backend, pulse)
            launches = await self._recoverer.run(backend, self._driver.in_hand, apply, news, pulse)
            self._driver.add(launches.values())
            self.wake()
        while True:
            await self._take_news(backend, pulse, ASK_AGAIN_S)

    async def _take_news(self, backend: Backend, pulse: Pulse, within_s: float) -> None:
        pulse.beat(within_s)
        if not self._taken.get(backend.backend_id):
            with anyio.move_on_after(within_s):
                self._taken[backend.backend_id] = await backend.observe()
        # Kept until it is stored: a backend tells it only once.
        if batch := self._taken.get(backend.backend_id):
            await store_observations(self._runtime, batch, pulse.beat)
            del self._taken[backend.backend_id]
            ended = [seen for seen in batch if isinstance(seen, Ended)]
            for seen in ended:
                with self._runtime.tracing.span("attempt ended", seen.attempt_uid, end=seen.end.kind.value):
                    pass
            self._recoverer.forget(seen.attempt_uid for seen in ended)
            self.wake()

    def _place(self, backend: Backend) -> Place:
        return Place(backend.summary(), tuple(backend.nodes()), backend.intake().room, self._closed(backend))
