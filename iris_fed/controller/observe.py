"""What backends observed becomes the state of jobs, in one transaction a batch."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import anyio

from iris_fed.clock import Entropy
from iris_fed.decide import lifecycle
from iris_fed.decide.backoff import backoff_ms
from iris_fed.decide.draft import AttemptKey, Draft
from iris_fed.errors import ResourceExhausted, Unavailable
from iris_fed.model.observed import Building, Ended, Observation, Queued, Running, Sampled
from iris_fed.model.spec import TERMINATE_CHILDREN
from iris_fed.store.commit import commit
from iris_fed.store.db import Tx
from iris_fed.store.jobs import job_by_uid, load_draft, locate_attempts
from iris_fed.store.runtime import Runtime
from iris_fed.store.tree import change_unfinished_below
from iris_fed.telemetry import get_logger

RETRY_BASE_MS = 200
RETRY_MAX_MS = 10_000

log = get_logger(__name__)


async def store_observations(runtime: Runtime, batch: Sequence[Observation], trying: Callable[[float], None]) -> None:
    """Commit what was seen. While the database cannot be written it is tried for ever: an observation
    that was taken is told only once. One that cannot be is left out, not those beside it.

    `trying` is told before each try for how many seconds the next may be paused.
    """
    tries = 0
    while True:
        trying(RETRY_MAX_MS / 1000)
        apply = partial(apply_observations, batch=batch, now_ms=runtime.clock.now_ms(), entropy=runtime.entropy)
        try:
            runtime.signals.publish(await runtime.db.write(apply))
            return
        except (ResourceExhausted, Unavailable) as error:
            tries += 1
            log.error("observations.not_stored", count=len(batch), error=error.message)
            await anyio.sleep(backoff_ms(tries, RETRY_BASE_MS, RETRY_MAX_MS, runtime.entropy.jitter()) / 1000)
        except Exception as error:
            if len(batch) == 1:
                log.error("observation.refused", observation=repr(batch[0]), exc_info=error)
                return
            break
    for observation in batch:
        await store_observations(runtime, [observation], trying)


def apply_observations(tx: Tx, batch: Sequence[Observation], now_ms: int, entropy: Entropy) -> set[int]:
    """Returns the uids of the jobs that changed. News of attempts not known here is passed over."""
    where = locate_attempts(tx, {seen.attempt_uid for seen in batch})
    by_job: dict[int, list[tuple[AttemptKey, Observation]]] = defaultdict(list)
    for seen in batch:
        if seen.attempt_uid in where:
            job_uid, index, number = where[seen.attempt_uid]
            by_job[job_uid].append(((index, number), seen))
    changed: set[int] = set()
    for uid, news in by_job.items():
        changed |= _apply_to_job(tx, uid, news, now_ms, entropy)
    return changed


def stop_if_failing(tx: Tx, job_uid: int, now_ms: int) -> None:
    """Stop what is left of a job of which too many tasks have failed."""
    job = job_by_uid(tx, job_uid)
    if job is None:
        return
    draft = load_draft(tx, job)
    if lifecycle.failing(draft):
        lifecycle.stop_failing(draft, now_ms)
        commit(tx, draft)


def _apply_to_job(
    tx: Tx, job_uid: int, news: Iterable[tuple[AttemptKey, Observation]], now_ms: int, entropy: Entropy
) -> set[int]:
    job = job_by_uid(tx, job_uid)
    if job is None:
        return set()
    news = list(news)
    # What happens to one member of a gang concerns them all.
    draft = load_draft(tx, job, None if job.spec.is_gang else {key[0] for key, _ in news})
    for key, seen in news:
        if key in draft.attempts:
            _apply_one(draft, key, seen, now_ms, entropy)
    changed = {job_uid} if commit(tx, draft) else set()
    preempted = draft.job.preemption_count > job.preemption_count
    if preempted and job.spec.preemption_policy == TERMINATE_CHILDREN:
        stop = partial(lifecycle.stop_with_preempted, parent=job, now_ms=now_ms)
        changed |= change_unfinished_below(tx, job_uid, stop)
    if lifecycle.failing(draft):
        stop_if_failing(tx, job_uid, now_ms)
    return changed | end_children_of_ended(tx, job_uid, now_ms)


def end_children_of_ended(tx: Tx, job_uid: int, now_ms: int) -> set[int]:
    """When a job is over, what is below it ends too. Returns the uids of what changed."""
    job = job_by_uid(tx, job_uid)
    if job is None or job.finished_ms is None:
        return set()
    return change_unfinished_below(tx, job_uid, lambda draft: lifecycle.end_with_parent(draft, job, now_ms))


def _apply_one(draft: Draft, key: AttemptKey, seen: Observation, now_ms: int, entropy: Entropy) -> None:
    match seen:
        case Queued():
            lifecycle.on_queued(draft, key, seen)
        case Building():
            lifecycle.on_building(draft, key, seen, now_ms)
        case Running():
            lifecycle.on_running(draft, key, seen, now_ms)
        case Ended():
            lifecycle.on_ended(draft, key, seen, now_ms, entropy.jitter())
        case Sampled():
            lifecycle.on_sampled(draft, key, seen)
