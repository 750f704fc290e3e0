"""The control loop: kill what must end, place what waits, start what was placed.

It runs when something happened; the interval is only a safety net. Everything it decides is
committed before it acts, so that a crash between the two is repaired by `recover`.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import anyio
from anyio.abc import TaskGroup

from iris_fed.backends.base import Backend, BackendUnavailable, Owner, Recovery
from iris_fed.config.sections import SchedulingSettings
from iris_fed.controller.disk import DiskGuard
from iris_fed.controller.launching import Launch, TaskLink, honours_of, launch_request, with_siblings
from iris_fed.controller.observe import apply_observations
from iris_fed.controller.placing import Terms, place_waiting
from iris_fed.decide.backoff import backoff_ms
from iris_fed.decide.placement import Place
from iris_fed.errors import ResourceExhausted, Unavailable
from iris_fed.model.jobs import Attempt, Job, LiveAttempt
from iris_fed.model.observed import AttemptEnd, Ended, EndKind, Observation
from iris_fed.model.resources import BackendSummary
from iris_fed.model.spec import JobSpec
from iris_fed.model.states import TaskState
from iris_fed.store.db import Tx
from iris_fed.store.jobs import job_by_uid, live_attempts, load_draft, with_secrets
from iris_fed.store.runtime import Runtime
from iris_fed.supervise import Wakeup, supervise
from iris_fed.telemetry import get_logger

RETRY_BASE_MS = 200
RETRY_MAX_MS = 10_000

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
        self._db = runtime.db
        self._clock = runtime.clock
        self._entropy = runtime.entropy
        self._signals = runtime.signals
        self._backends = backends
        self._owner = owner
        self._link = link
        self._safety_interval_s = settings.safety_interval_s
        self._disk = disk
        self._hold_after_ms = int(settings.hold_after_s * 1000)
        self._unlaunched: dict[str, Launch] = {}
        self._launching: set[str] = set()
        self._launch_tries = 0
        self._killed: set[str] = set()
        self._group: TaskGroup | None = None
        self._recovered = False
        self.wake = Wakeup()

    async def run(self) -> None:
        """Until cancelled."""
        async with anyio.create_task_group() as group:
            self._group = group
            for backend in self._backends.values():
                group.start_soon(supervise, f"observe {backend.backend_id}", partial(self._observe, backend))
            group.start_soon(supervise, "control", self._control)

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

    async def _control(self) -> None:
        if not self._recovered:
            for backend in self._backends.values():
                await self._recover(backend)
            self._recovered = True
        refresh = True
        while True:
            wait_s = await self._pass(refresh)
            refresh = not await self.wake.wait(min(wait_s, self._safety_interval_s))

    async def _pass(self, refresh_reasons: bool) -> float:
        """1. Kill. 2. Start what could not be started before. 3. Place and start. Returns seconds to the next.

        Neither starting nor killing is waited for: a workspace that takes long to unpack holds up nobody.
        """
        await self._kill()
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

    async def _kill(self) -> None:
        doomed = await self._db.read(lambda tx: live_attempts(tx, to_kill_only=True))
        self._killed &= {attempt.attempt_uid for attempt in doomed}
        for attempt in doomed:
            backend = self._backends.get(attempt.backend_id)
            if backend is None or attempt.attempt_uid in self._killed:
                continue
            uid = attempt.attempt_uid
            if uid not in self._launching and self._unlaunched.pop(uid, None) is not None:
                await self._apply([_never_started(attempt, self._clock.now_ms())])
                continue
            self._killed.add(uid)
            self._background.start_soon(self._kill_one, backend, uid)

    @property
    def _background(self) -> TaskGroup:
        assert self._group is not None
        return self._group

    async def _kill_one(self, backend: Backend, uid: str) -> None:
        try:
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
                self._launching.add(uid)
                self._background.start_soon(self._launch_one, launch)
        # Each reserves its capacity before it first waits, so that the next pass sees what is left.
        await anyio.lowlevel.checkpoint()

    async def _launch_one(self, launch: Launch) -> None:
        uid = launch.request.attempt_uid
        try:
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
            self._launching.discard(uid)

    async def _observe(self, backend: Backend) -> None:
        while True:
            await self._apply(await backend.observe())
            self.wake()

    async def _apply(self, batch: Sequence[Observation]) -> None:
        """Commit what was seen. While the database cannot be written it is tried for ever: an
        observation that was taken is told only once. One that cannot be is left out, not those beside it."""
        tries = 0
        while True:
            apply = partial(apply_observations, batch=batch, now_ms=self._clock.now_ms(), entropy=self._entropy)
            try:
                self._signals.publish(await self._db.write(apply))
                return
            except (ResourceExhausted, Unavailable) as error:
                tries += 1
                log.error("observations.not_stored", count=len(batch), error=error.message)
                await anyio.sleep(backoff_ms(tries, RETRY_BASE_MS, RETRY_MAX_MS, self._entropy.jitter()) / 1000)
            except Exception as error:
                if len(batch) == 1:
                    log.error("observation.refused", observation=repr(batch[0]), exc_info=error)
                    return
                break
        for observation in batch:
            await self._apply([observation])

    async def _recover(self, backend: Backend) -> None:
        """Meet what runs already: follow our own, restart what a crash kept from starting, and end
        what this database or an ancestor of it does not know (promise 10)."""
        everything = await self._db.read(live_attempts)
        live = {a.attempt_uid: a for a in everything if a.backend_id == backend.backend_id}
        recovery = await backend.recover(live.keys())
        await self._stop_strangers(backend, recovery)
        now_ms = self._clock.now_ms()
        gone: list[Observation] = []
        for uid in sorted(recovery.unknown):
            if live[uid].state is TaskState.ASSIGNED and not live[uid].kill:
                await self._requeue(live[uid])
            else:
                gone.append(_never_started(live[uid], now_ms) if live[uid].kill else _lost(uid, now_ms))
        await self._apply([*recovery.observations, *gone])

    async def _stop_strangers(self, backend: Backend, recovery: Recovery) -> None:
        own = {self._owner.database_id, *self._owner.ancestor_ids}
        for stranger in recovery.strangers:
            mine = stranger.cluster == self._owner.cluster and stranger.database_id in own
            log.warning(
                "attempt.unknown",
                attempt=stranger.attempt_uid,
                task=stranger.task_id,
                database=stranger.database_id,
                action="stopped" if mine else "left alone; it takes capacity",
            )
            if mine:
                await backend.kill(stranger.attempt_uid)

    async def _requeue(self, live: LiveAttempt) -> None:
        found = await self._db.read(lambda tx: _job_and_attempt(tx, live))
        if found is not None and found[0].spec.is_gang:
            # It can no longer be told of its siblings: the round ends, at nobody's expense.
            message = "was not started when the controller ended"
            end = AttemptEnd(EndKind.NO_CAPACITY, message=message)
            await self._apply([Ended(live.attempt_uid, end, None, self._clock.now_ms())])
        elif found is not None:
            self._unlaunched[live.attempt_uid] = Launch(live.backend_id, launch_request(*found, self._link))


def _job_and_attempt(tx: Tx, live: LiveAttempt) -> tuple[Job, Attempt] | None:
    job = job_by_uid(tx, live.job_uid)
    if job is None:
        return None
    attempt = load_draft(tx, job, {live.task_index}).attempts.get((live.task_index, live.number))
    return None if attempt is None else (with_secrets(tx, job), attempt)


def _never_started(live: LiveAttempt, now_ms: int) -> Ended:
    return Ended(live.attempt_uid, AttemptEnd(EndKind.KILLED, message="was stopped before it started"), None, now_ms)


def _lost(uid: str, now_ms: int) -> Ended:
    message = "was lost while the controller was down: nothing of it is left, its exit code is unknown"
    return Ended(uid, AttemptEnd(EndKind.LOST, message=message), None, now_ms)
