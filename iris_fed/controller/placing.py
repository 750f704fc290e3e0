"""One placement transaction: who waits too long ends, who fits gets a place, the rest learns why not."""

from collections.abc import Sequence
from dataclasses import dataclass

from iris_fed.clock import Entropy
from iris_fed.controller.launching import Launch, TaskLink, launch_request
from iris_fed.decide import lifecycle
from iris_fed.decide.placement import Patience, Place, Placed, Plan, choose_places
from iris_fed.model.states import JobState
from iris_fed.store.commit import commit
from iris_fed.store.db import Tx
from iris_fed.store.jobs import (
    demand_queues,
    earliest_retry,
    explain_waiting,
    job_by_uid,
    load_draft,
    next_scheduling_deadline,
    past_scheduling_deadline,
    with_secrets,
)

MAX_PLACED = 256
"""Tasks placed in one pass: one transaction stays short, and the next pass follows at once."""


@dataclass(frozen=True, slots=True)
class Placing:
    """What to start now, which jobs changed, when the next timer is due (epoch ms), and whether
    the bound was reached, so that another pass should follow at once."""

    launches: tuple[Launch, ...]
    changed: frozenset[int]
    next_ms: int | None
    full: bool


@dataclass(frozen=True, slots=True)
class Terms:
    """How a pass is made. `refresh_reasons`: also bring up to date why jobs wait that were told before.
    `hold_after_ms`: see `Patience`. `closed`: why nothing may be started now, '' = nothing stands
    against it."""

    now_ms: int
    entropy: Entropy
    link: TaskLink
    hold_after_ms: int
    refresh_reasons: bool = False
    closed: str = ""


def place_waiting(tx: Tx, places: Sequence[Place], terms: Terms) -> Placing:
    """One pass over the queue."""
    now_ms = terms.now_ms
    changed = _expire_waiting(tx, now_ms)
    queues = demand_queues(tx)
    if terms.closed:
        plan = Plan((), {queue.demand: terms.closed for queue in queues})
    else:
        plan = choose_places(queues, places, now_ms, Patience(MAX_PLACED, terms.hold_after_ms))
    launches = _assign(tx, plan, terms)
    for demand, reason in plan.waiting.items():
        changed |= explain_waiting(tx, demand, reason, refresh=terms.refresh_reasons)
    changed |= {placed.job_uid for placed in plan.placed}
    timers = [at for at in (next_scheduling_deadline(tx), earliest_retry(tx, now_ms)) if at is not None]
    return Placing(tuple(launches), frozenset(changed), min(timers, default=None), len(plan.placed) >= MAX_PLACED)


def _expire_waiting(tx: Tx, now_ms: int) -> set[int]:
    changed = set()
    for job in past_scheduling_deadline(tx, now_ms):
        draft = load_draft(tx, job)
        reason = job.pending_reason or "no place was found"
        error = f"not started within its scheduling timeout: {reason}"
        lifecycle.request_stop(draft, JobState.UNSCHEDULABLE, error, now_ms)
        commit(tx, draft)
        changed.add(job.uid)
    return changed


def _assign(tx: Tx, plan: Plan, terms: Terms) -> list[Launch]:
    by_job: dict[int, list[Placed]] = {}
    for placed in plan.placed:
        by_job.setdefault(placed.job_uid, []).append(placed)
    launches = []
    for uid, tasks in by_job.items():
        job = job_by_uid(tx, uid)
        assert job is not None
        draft = load_draft(tx, job, {placed.task_index for placed in tasks})
        for placed in tasks:
            uid_of_attempt = terms.entropy.token()
            attempt = lifecycle.assign(
                draft, placed.task_index, uid_of_attempt, placed.backend_id, placed.node, terms.now_ms
            )
            request = launch_request(with_secrets(tx, job), attempt, terms.link)
            gang = job.job_id if job.spec.is_gang else ""
            launches.append(Launch(placed.backend_id, request, placed.task_index, gang, gang))
        commit(tx, draft)
    return launches
