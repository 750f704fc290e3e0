"""The first start after a restore: nothing is started again, since what is not found running may have run since
the backup (design, section 6)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from iris_fed.backends.base import Recovery
from iris_fed.controller.launching import never_started
from iris_fed.controller.observe import apply_observations, end_children_of_ended, stop_if_failing
from iris_fed.decide import lifecycle
from iris_fed.model.jobs import LiveAttempt
from iris_fed.model.observed import Ended
from iris_fed.store.commit import commit
from iris_fed.store.db import Tx
from iris_fed.store.jobs import job_by_uid, load_draft
from iris_fed.store.meta import RestoreMark, clear_restore_mark
from iris_fed.store.restore import jobs_to_settle
from iris_fed.store.runtime import Runtime
from iris_fed.telemetry import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Met:
    """What a backend said of the attempts that it should be running."""

    live: Mapping[str, LiveAttempt]
    recovery: Recovery


async def settle_after_restore(runtime: Runtime, met: Sequence[Met], mark: RestoreMark) -> None:
    """`met`: what each of the backends has told."""
    now_ms, jitter = runtime.clock.now_ms(), runtime.entropy
    seen = [observation for one in met for observation in one.recovery.observations]
    found = {one.attempt_uid for one in seen if not isinstance(one, Ended)}
    stopped = [never_started(uid, now_ms) for one in met for uid in sorted(one.recovery.unknown) if one.live[uid].kill]

    def settle(tx: Tx) -> set[int]:
        changed = apply_observations(tx, seen, now_ms, jitter)
        changed |= _lose_unfound(tx, found, mark, now_ms)
        changed |= apply_observations(tx, stopped, now_ms, jitter)
        clear_restore_mark(tx)
        return changed

    changed = await runtime.db.write(settle)
    log.warning("database.restored", backup=_utc(mark.taken_ms), found=len(found), jobs_changed=len(changed))
    runtime.signals.publish(changed)


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


def _utc(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
