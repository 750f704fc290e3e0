"""The first thing a control loop does: meet what runs already, before anything is started.

Its own attempts are followed again, what a crash kept from starting is started, and what this
database or an ancestor of it does not know is ended (promise 10). After a restore nothing is
started again: what is not found running may have run since the backup (design, section 6).
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from iris_fed.backends.base import Backend, Owner, Recovery, Stranger
from iris_fed.controller.launching import Launch, TaskLink, launch_request
from iris_fed.controller.observe import apply_observations, end_children_of_ended, stop_if_failing
from iris_fed.decide import lifecycle
from iris_fed.model.jobs import Attempt, Job, LiveAttempt
from iris_fed.model.observed import AttemptEnd, Ended, EndKind, Observation
from iris_fed.model.states import TaskState
from iris_fed.store.commit import commit
from iris_fed.store.db import Tx
from iris_fed.store.jobs import job_by_uid, live_attempts, load_draft, with_secrets
from iris_fed.store.meta import RestoreMark, clear_restore_mark, read_restore_mark
from iris_fed.store.restore import jobs_to_settle
from iris_fed.store.runtime import Runtime
from iris_fed.supervise import Pulse, Wakeup
from iris_fed.telemetry import get_logger

LOOK_AGAIN_S = 1.0
"""While attempts are being ended; their end wakes us sooner."""

log = get_logger(__name__)
Apply = Callable[[Sequence[Observation]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Met:
    """What a backend said of the attempts that it should be running."""

    live: Mapping[str, LiveAttempt]
    recovery: Recovery


class Recoverer:
    """`run` it before anything is started."""

    def __init__(self, runtime: Runtime, backends: Mapping[str, Backend], owner: Owner, link: TaskLink) -> None:
        self._runtime = runtime
        self._backends = backends
        self._owner = owner
        self._link = link
        self._strangers: dict[str, Stranger] = {}
        self._ending: set[str] = set()

    def notes(self) -> tuple[str, ...]:
        """Who else's work runs here, and what is waited for."""
        others = tuple(
            f"attempt {one.attempt_uid} ({one.task_id}) of database {one.database_id} of cluster {one.cluster} "
            "runs here; it is left alone and takes capacity"
            for one in self._strangers.values()
        )
        waits = (f"nothing is started until {len(self._ending)} attempts that are not in this database have ended",)
        return others + waits if self._ending else others

    def forget(self, ended: Iterable[str]) -> None:
        """These attempts are over."""
        for uid in ended:
            self._strangers.pop(uid, None)

    async def run(self, starting: Collection[str], apply: Apply, wake: Wakeup, pulse: Pulse) -> dict[str, Launch]:
        """Returns what is still to be started, by attempt uid. Attempts in `starting` are being started already."""
        met = [await self._meet(backend, wake, pulse) for backend in self._backends.values()]
        mark = await self._runtime.db.read(read_restore_mark)
        if mark is not None:
            await self._after_restore(met, mark)
            return {}
        launches: dict[str, Launch] = {}
        for one in met:
            launches |= await self._go_on(one, starting, apply)
        return launches

    async def _meet(self, backend: Backend, wake: Wakeup, pulse: Pulse) -> _Met:
        """Returns once nothing runs that is ours and not known here."""
        told: set[str] = set()
        while True:
            pulse.beat(LOOK_AGAIN_S)
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
            self._ending = {one.attempt_uid for one in ours}
            if not ours:
                return _Met(live, recovery)
            await wake.wait(LOOK_AGAIN_S)

    def _is_ours(self, stranger: Stranger) -> bool:
        own = {self._owner.database_id, *self._owner.ancestor_ids}
        return stranger.cluster == self._owner.cluster and stranger.database_id in own

    async def _go_on(self, met: _Met, starting: Collection[str], apply: Apply) -> dict[str, Launch]:
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

    async def _after_restore(self, met: Sequence[_Met], mark: RestoreMark) -> None:
        now_ms, jitter = self._runtime.clock.now_ms(), self._runtime.entropy
        seen = [observation for one in met for observation in one.recovery.observations]
        found = {one.attempt_uid for one in seen if not isinstance(one, Ended)}
        stopped = [
            never_started(uid, now_ms) for one in met for uid in sorted(one.recovery.unknown) if one.live[uid].kill
        ]

        def settle(tx: Tx) -> set[int]:
            changed = apply_observations(tx, seen, now_ms, jitter)
            changed |= _lose_unfound(tx, found, mark, now_ms)
            changed |= apply_observations(tx, stopped, now_ms, jitter)
            clear_restore_mark(tx)
            return changed

        changed = await self._runtime.db.write(settle)
        log.warning("database.restored", backup=_utc(mark.taken_ms), found=len(found), jobs_changed=len(changed))
        self._runtime.signals.publish(changed)


def never_started(uid: str, now_ms: int) -> Ended:
    """An attempt that was stopped before it began."""
    return Ended(uid, AttemptEnd(EndKind.KILLED, message="was stopped before it started"), None, now_ms)


def _lose_unfound(tx: Tx, found: Collection[str], mark: RestoreMark, now_ms: int) -> set[int]:
    words = f"lost: this cluster's database was restored from a backup of {_utc(mark.taken_ms)}; it may have run since"
    changed: set[int] = set()
    # Children first: each is told what became of itself, not only that its parent has ended.
    for uid in jobs_to_settle(tx, mark):
        job = job_by_uid(tx, uid)
        assert job is not None
        draft = load_draft(tx, job)
        lifecycle.lose_unfound(draft, found, words, now_ms)
        if commit(tx, draft):
            changed.add(uid)
            stop_if_failing(tx, uid, now_ms)
            changed |= end_children_of_ended(tx, uid, now_ms)
    return changed


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


def _utc(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
