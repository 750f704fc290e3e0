"""What backends observed becomes the state of jobs, in one transaction a batch."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from iris_fed.clock import Entropy
from iris_fed.decide import lifecycle
from iris_fed.decide.draft import AttemptKey, Draft
from iris_fed.model.observed import Building, Ended, Observation, Running, Sampled
from iris_fed.store.commit import commit
from iris_fed.store.db import Tx
from iris_fed.store.jobs import job_by_uid, load_draft, locate_attempts
from iris_fed.store.tree import change_unfinished_below


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
        case Building():
            lifecycle.on_building(draft, key, seen, now_ms)
        case Running():
            lifecycle.on_running(draft, key, seen, now_ms)
        case Ended():
            lifecycle.on_ended(draft, key, seen, now_ms, entropy.jitter())
        case Sampled():
            lifecycle.on_sampled(draft, key, seen)
