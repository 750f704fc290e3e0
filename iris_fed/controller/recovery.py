"""What comes before anything is started on a backend: reach it, and meet what runs there already.

Each backend is met by itself, so that one that cannot be reached holds up none of the others. Its own
attempts are followed again, what a crash kept from starting is started, and what this database or an
ancestor of it does not know is ended (promise 10).
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

import anyio

from iris_fed.backends.base import Backend, BackendUnavailable, Owner, Stranger
from iris_fed.controller.after_restore import Met, settle_after_restore
from iris_fed.controller.launching import Launch, TaskLink, launch_request, never_started
from iris_fed.decide.backoff import backoff_ms
from iris_fed.model.jobs import Attempt, Job, LiveAttempt
from iris_fed.model.observed import AttemptEnd, Ended, EndKind, Observation
from iris_fed.model.states import TaskState
from iris_fed.store.db import Tx
from iris_fed.store.jobs import job_by_uid, live_attempts, load_draft, with_secrets
from iris_fed.store.meta import RestoreMark, read_restore_mark
from iris_fed.store.runtime import Runtime
from iris_fed.supervise import Pulse
from iris_fed.telemetry import get_logger

LOOK_AGAIN_S = 1.0
"""While attempts are being ended; their end wakes us sooner."""
START_PATIENCE_S = 5.0
"""For a backend when the controller starts; after that it is tried on beside everything else."""
START_LIMIT_S = 60.0
RETRY_BASE_MS = 500
RETRY_MAX_MS = 15_000

log = get_logger(__name__)
Apply = Callable[[Sequence[Observation]], Awaitable[None]]
News = Callable[[float], Awaitable[None]]
"""Waits for news of the backend, so many seconds at most, and stores them."""


class Recoverer:
    """`met` holds the ids of the backends on which attempts may be started."""

    def __init__(self, runtime: Runtime, backends: Mapping[str, Backend], owner: Owner, link: TaskLink) -> None:
        self._runtime = runtime
        self._backends = backends
        self._owner = owner
        self._link = link
        self._strangers: dict[str, Stranger] = {}
        self._ending: dict[str, int] = {}
        self._started: set[str] = set()
        self._trouble: dict[str, str] = {}
        self._waiting_for_all: dict[str, Met] = {}
        self._restored = anyio.Event()
        self.met: set[str] = set()
        self.all_met = anyio.Event()
        if not backends:
            self.all_met.set()

    async def start_all(self) -> None:
        """Begin with what can be reached at once. Raises OSError where a backend's own place cannot be used."""
        for backend in self._backends.values():
            try:
                await self._start(backend, START_PATIENCE_S)
            except (BackendUnavailable, TimeoutError) as error:
                self._note_trouble(backend, error)

    def closed(self, backend_id: str) -> str:
        """Why nothing is started there yet; "" = it is met."""
        if backend_id in self.met:
            return ""
        trouble = self._trouble.get(backend_id)
        return f"waiting for backend {backend_id}" + (f", which cannot be reached: {trouble}" if trouble else "")

    def notes(self) -> tuple[str, ...]:
        """Who else's work runs here, and what is waited for."""
        others = tuple(
            f"attempt {one.attempt_uid} ({one.task_id}) of database {one.database_id} of cluster {one.cluster} "
            "runs here; it is left alone and takes capacity"
            for one in self._strangers.values()
        )
        ending = sum(self._ending.values())
        waits = (f"nothing is started until {ending} attempts that are not in this database have ended",)
        away = tuple(f"backend {name} cannot be reached: {why}" for name, why in sorted(self._trouble.items()))
        return others + (waits if ending else ()) + away

    def forget(self, ended: Iterable[str]) -> None:
        """These attempts are over."""
        for uid in ended:
            self._strangers.pop(uid, None)

    async def run(
        self, backend: Backend, starting: Collection[str], apply: Apply, news: News, pulse: Pulse
    ) -> dict[str, Launch]:
        """Until the backend is met. Returns what is still to be started there, by attempt uid. Attempts in
        `starting` are being started already."""
        tries = 0
        while True:
            try:
                await self._start(backend, START_LIMIT_S, pulse)
                met = await self._meet(backend, news, pulse)
                break
            except (BackendUnavailable, TimeoutError) as error:
                tries += 1
                self._note_trouble(backend, error)
                pause_s = backoff_ms(tries, RETRY_BASE_MS, RETRY_MAX_MS, self._runtime.entropy.jitter()) / 1000
                pulse.beat(pause_s)
                await anyio.sleep(pause_s)
        self._trouble.pop(backend.backend_id, None)
        mark = await self._runtime.db.read(read_restore_mark)
        launches = await self._go_on(met, starting, apply) if mark is None else {}
        if mark is not None:
            await self._restore(backend, met, mark, pulse)
        self.met.add(backend.backend_id)
        if len(self.met) == len(self._backends):
            self.all_met.set()
        return launches

    async def _start(self, backend: Backend, within_s: float, pulse: Pulse | None = None) -> None:
        if backend.backend_id in self._started:
            return
        if pulse is not None:
            pulse.beat(within_s)
        with anyio.fail_after(within_s):
            await backend.start(self._owner)
        self._started.add(backend.backend_id)

    def _note_trouble(self, backend: Backend, error: Exception) -> None:
        words = str(error) or "it did not answer in time"
        if self._trouble.get(backend.backend_id) != words:
            log.warning("backend.unreachable", backend=backend.backend_id, error=words)
        self._trouble[backend.backend_id] = words

    async def _restore(self, backend: Backend, met: Met, mark: RestoreMark, pulse: Pulse) -> None:
        """After a restore what a job is left with is known only once all backends have told."""
        self._waiting_for_all[backend.backend_id] = met
        if len(self._waiting_for_all) == len(self._backends):
            await settle_after_restore(self._runtime, list(self._waiting_for_all.values()), mark)
            self._restored.set()
        while not self._restored.is_set():
            pulse.beat(LOOK_AGAIN_S)
            with anyio.move_on_after(LOOK_AGAIN_S):
                await self._restored.wait()

    async def _meet(self, backend: Backend, news: News, pulse: Pulse) -> Met:
        """Returns once nothing runs that is ours and not known here. Raises BackendUnavailable."""
        told: set[str] = set()
        while True:
            pulse.beat()
            everything = await self._runtime.db.read(live_attempts)
            live = {a.attempt_uid: a for a in everything if a.backend_id == backend.backend_id}
            recovery = await backend.recover(live.keys())
            ours = [stranger for stranger in recovery.strangers if self._is_ours(stranger)]
            self._strangers |= {one.attempt_uid: one for one in recovery.strangers if one not in ours}
            for stranger in recovery.strangers:
                if stranger.attempt_uid not in told:
                    told.add(stranger.attempt_uid)
                    _report(stranger, stranger in ours)
                    if stranger in ours:
                        await backend.kill(stranger.attempt_uid)
            self._ending[backend.backend_id] = len(ours)
            if not ours:
                return Met(live, recovery)
            await news(LOOK_AGAIN_S)

    def _is_ours(self, stranger: Stranger) -> bool:
        own = {self._owner.database_id, *self._owner.ancestor_ids}
        return stranger.cluster == self._owner.cluster and stranger.database_id in own

    async def _go_on(self, met: Met, starting: Collection[str], apply: Apply) -> dict[str, Launch]:
        now_ms = self._runtime.clock.now_ms()
        gone: list[Observation] = []
        launches: dict[str, Launch] = {}
        for uid in sorted(met.recovery.unknown - frozenset(starting)):
            live = met.live[uid]
            if live.state is not TaskState.ASSIGNED or live.kill:
                gone.append(never_started(live.attempt_uid, now_ms) if live.kill else _lost(uid, now_ms))
            elif isinstance(again := await self._start_again(live, now_ms), Launch):
                launches[uid] = again
            elif again is not None:
                gone.append(again)
        await apply([*met.recovery.observations, *gone])
        return launches

    async def _start_again(self, live: LiveAttempt, now_ms: int) -> Launch | Ended | None:
        found = await self._runtime.db.read(lambda tx: _job_and_attempt(tx, live))
        if found is None:
            return None
        if found[0].spec.is_gang:
            # It can no longer be told of its siblings: the round ends, at nobody's expense.
            end = AttemptEnd(EndKind.NO_CAPACITY, message="was not started when the controller ended")
            return Ended(live.attempt_uid, end, None, now_ms)
        return Launch(live.backend_id, launch_request(*found, self._link))


def _report(stranger: Stranger, ours: bool) -> None:
    log.warning(
        "attempt.unknown",
        attempt=stranger.attempt_uid,
        task=stranger.task_id,
        database=stranger.database_id,
        action="stopped" if ours else "left alone; it takes capacity",
    )


def _job_and_attempt(tx: Tx, live: LiveAttempt) -> tuple[Job, Attempt] | None:
    job = job_by_uid(tx, live.job_uid)
    if job is None:
        return None
    attempt = load_draft(tx, job, {live.task_index}).attempts.get((live.task_index, live.number))
    return None if attempt is None else (with_secrets(tx, job), attempt)


def _lost(uid: str, now_ms: int) -> Ended:
    message = "was lost while the controller was down: nothing of it is left, its exit code is unknown"
    return Ended(uid, AttemptEnd(EndKind.LOST, message=message), None, now_ms)
