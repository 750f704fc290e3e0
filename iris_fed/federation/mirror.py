"""Applies a peer's answer to the mirror: one transaction, with its cursor."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from iris_fed.decide import adoption, handoff, mirror
from iris_fed.decide.draft import Draft
from iris_fed.decide.mirror import Match, remote_id_of
from iris_fed.federation.adoption import Origin, adopt_unknown, last_acknowledged
from iris_fed.federation.apart import apply_apart
from iris_fed.federation.mirror_children import end_children, end_left_behind, follow_child
from iris_fed.model.federation import Delta, PeerState, SentHandle, SyncAnswer
from iris_fed.model.ids import parse_job_id, unfold_local_id
from iris_fed.model.states import TERMINAL_JOB_STATES, SentState
from iris_fed.store.commit import commit
from iris_fed.store.db import Tx
from iris_fed.store.handles import (
    is_any_missing,
    is_news_overdue,
    left_behind,
    load_peer,
    open_sent,
    open_sent_by_job,
    save_peer,
    sent_by_nonce,
    update_sent,
)
from iris_fed.store.jobs import attempts_of, job_by_id, load_draft

ROOT_DEPTH = 2
"""Slashes in the id of a root job: `/<user>/<job>`."""

OVERDUE_MS = 60_000
"""Within a minute of its acknowledgement a job is reported, and of its cancel it has ended."""


@dataclass(slots=True)
class FullSet:
    """A full set being read page by page. Lives in memory only: a crash starts it anew.

    `seen` holds what it names: nonces, and job ids where a row has no nonce. `unreadable`: some
    rows could not be read, so that a job that is not in `seen` may be there nevertheless."""

    asked_ms: int
    database_id: str
    seen: set[str] = field(default_factory=set)
    unreadable: bool = False
    orphans: set[str] = field(default_factory=set)
    seen_children: set[str] = field(default_factory=set)

    def add(self, answer: SyncAnswer) -> None:
        """Another page."""
        self.seen.update(delta.nonce or delta.job_id for delta in answer.deltas)
        self.seen_children.update(d.job_id for d in answer.deltas if d.job_id.count("/") > ROOT_DEPTH)
        self.unreadable |= answer.unreadable > 0


@dataclass(frozen=True, slots=True)
class Applied:
    """What an answer did: jobs changed, incarnations to cancel there, and rows passed over.

    `missing`: the last full set lacked a handle. `overdue`: news of an acknowledged job should have come by
    now. `another_database` answers since this answer. `ambiguous`: a lost job was found again, or a row may be
    of an incarnation that was acknowledged meanwhile. In each case a full set must be asked for.
    `orphans`: remote ids of what this cluster does not follow since the name is alive elsewhere.
    `replaced_attempts` of jobs here that gave way to adopted ones: their files may go."""

    state: PeerState
    changed: frozenset[int]
    strays: tuple[tuple[str, str], ...]
    skipped: int
    missing: bool
    overdue: bool
    another_database: bool = False
    ambiguous: bool = False
    orphans: frozenset[str] = frozenset()
    replaced_attempts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Terms:
    """By which an answer is applied: whose it is, when its request left, when it came, after what grace
    a job is lost, and how long finished jobs are kept here."""

    peer: str
    asked_ms: int
    now_ms: int
    lost_after_ms: int
    retention_ms: int
    origin: Origin


def apply_answer(tx: Tx, answer: SyncAnswer, terms: Terms, full: FullSet | None) -> Applied:
    """`full` is the full set that this answer is a page of (already holding this page's nonces).

    A row that cannot be applied is passed over and counted, so that it never holds up those behind it.
    """
    state = load_peer(tx, terms.peer)
    another = answer.database_id != state.database_id
    if another:
        _believe_unanswered(tx, terms.peer, answer.database_id)
    adopting = adoption.Terms(terms.peer, terms.asked_ms, terms.now_ms, terms.retention_ms)
    adopted = adopt_unknown(tx, answer.deltas, answer.database_id, terms.origin, adopting)
    changed: set[int] = adopted.changed
    strays: list[tuple[str, str]] = []
    skipped = answer.unreadable + adopted.later
    ambiguous = adopted.found_again
    for delta in _children_first(answer.deltas):
        if delta.nonce in adopted.passed:
            continue
        handle = _handle_of(tx, terms, delta, answer)
        match mirror.match_delta(delta, handle):
            case Match.FOLLOW:
                assert handle is not None
                followed = apply_apart(tx, handle, partial(_follow, tx, handle, delta, terms.now_ms))
                changed |= followed or set()
                skipped += followed is None
            case Match.CHILD:
                assert handle is not None
                followed = apply_apart(tx, handle, partial(follow_child, tx, handle, delta, terms.now_ms))
                changed |= followed or set()
                skipped += followed is None
            case Match.STRAY:
                strays.append((delta.job_id, delta.nonce))
            case Match.UNKNOWN:
                skipped += 1
                ambiguous |= _is_ambiguous(tx, terms, delta, answer)
            case Match.DONE:
                pass
    changed |= _end_below_gone(tx, terms, answer)
    finished = full is not None and not answer.more
    missing: set[int] = set()
    if full is not None and finished and not full.unreadable:
        missing = _note_missing(tx, full, terms)
        changed |= _end_unseen_children(tx, full, terms)
    state = _next_state(state, answer, terms, finished=finished, in_full_set=full is not None)
    save_peer(tx, state)
    overdue = is_news_overdue(tx, terms.peer, terms.now_ms - OVERDUE_MS)
    return Applied(
        state,
        frozenset(changed | missing),
        tuple(strays),
        skipped,
        missing=is_any_missing(tx, terms.peer),
        overdue=overdue,
        another_database=another,
        ambiguous=ambiguous,
        orphans=frozenset(adopted.orphans),
        replaced_attempts=tuple(adopted.replaced_attempts),
    )


def _children_first(deltas: Sequence[Delta]) -> list[Delta]:
    """Roots last, since the end of a root closes its handle; a child before what is below it."""

    def order(delta: Delta) -> tuple[bool, int]:
        depth = delta.job_id.count("/")
        return depth == ROOT_DEPTH, depth

    return sorted(deltas, key=order)


def _end_below_gone(tx: Tx, terms: Terms, answer: SyncAnswer) -> set[int]:
    """Children outlive their root for as long as the peer takes to stop them, and are followed to their
    own end; of what it has removed, nothing more is told. Only now: what came in the same answer counts first."""
    changed: set[int] = set()
    for delta in answer.deltas:
        handle = _handle_of(tx, terms, delta, answer) if delta.tombstone else None
        if handle is not None and mirror.match_delta(delta, handle) is not Match.UNKNOWN:
            changed |= end_children(tx, mirror.local_id_of(handle, delta.job_id), terms.now_ms)
    return changed


def _end_unseen_children(tx: Tx, full: FullSet, terms: Terms) -> set[int]:
    """Those whose root is over, and which the whole set of their peer does not show any more."""
    changed: set[int] = set()
    for child, handle in left_behind(tx, terms.peer, full.asked_ms):
        if remote_id_of(handle, child.job_id) not in full.seen_children:
            changed |= end_left_behind(tx, child, terms.now_ms)
    return changed


def _next_state(state: PeerState, answer: SyncAnswer, terms: Terms, *, finished: bool, in_full_set: bool) -> PeerState:
    state = replace(
        state,
        database_id=answer.database_id,
        last_contact_ms=terms.now_ms,
        lost_contact_ms=None,
        last_error="",
    )
    if not answer.more:
        state = replace(state, synced_ms=terms.now_ms)
    if answer.backends is not None:
        state = replace(state, backends=answer.backends, backends_ms=terms.now_ms)
    if finished:
        return replace(state, cursor=answer.next_cursor, full_set_done=True)
    # A page in the middle of a full set is no place to go on from after a crash.
    return state if in_full_set else replace(state, cursor=answer.next_cursor)


def _handle_of(tx: Tx, terms: Terms, delta: Delta, answer: SyncAnswer) -> SentHandle | None:
    if delta.nonce:
        return sent_by_nonce(tx, terms.peer, delta.nonce)
    if answer.database_id:
        return None
    # A peer without our extensions.
    handle = last_acknowledged(tx, delta, terms.origin, terms.peer, terms.asked_ms)
    if handle is None or handle.state is not SentState.CLOSED:
        return handle
    # Its children may still stop. Were it alive itself, no cancel could name it: that might hit the next one.
    over = delta.tombstone or (delta.report is not None and delta.report.state in TERMINAL_JOB_STATES)
    return handle if over or delta.job_id != handle.remote_job_id else None


def _is_ambiguous(tx: Tx, terms: Terms, delta: Delta, answer: SyncAnswer) -> bool:
    """Whether it may speak of an incarnation that was acknowledged while the request was under way."""
    return not delta.nonce and not answer.database_id and _acknowledged(tx, terms, delta) is not None


def _acknowledged(tx: Tx, terms: Terms, delta: Delta) -> SentHandle | None:
    local = unfold_local_id(parse_job_id(delta.job_id).root, terms.origin.cluster)
    handle = open_sent_by_job(tx, str(local)) if local is not None else None
    if handle is None or handle.peer != terms.peer or handle.state is not SentState.HANDED_OFF:
        return None
    return handle


def _follow(tx: Tx, handle: SentHandle, delta: Delta, now_ms: int) -> set[int]:
    job = job_by_id(tx, handle.job_id)
    if job is None or job.nonce != handle.nonce:
        return set()
    indexes = [task.index for task in delta.tasks]
    draft = load_draft(tx, job, None if delta.tombstone else indexes)
    if not delta.tombstone:
        draft = Draft(job, draft.tasks.values(), attempts_of(tx, job.uid, indexes), draft.counts, draft.first_failed)
    after = mirror.follow(handle, draft, delta, now_ms)
    changed = commit(tx, draft)
    update_sent(tx, handle, after)
    return {job.uid} if changed or after != handle else set()


def _note_missing(tx: Tx, full: FullSet, terms: Terms) -> set[int]:
    changed = set()
    for handle in open_sent(tx, terms.peer):
        shown = handle.nonce in full.seen or handle.remote_job_id in full.seen
        if not shown and _should_be_shown(handle, full.asked_ms):
            changed |= apply_apart(tx, handle, partial(_note_one_missing, tx, handle, full, terms)) or set()
    return changed


def _should_be_shown(handle: SentHandle, asked_ms: int) -> bool:
    """Whether the peer had acknowledged it, or fenced it, before it was asked."""
    if handle.state is SentState.HANDED_OFF:
        return handle.acked_ms is not None and handle.acked_ms < asked_ms
    return handle.cancel_acked and handle.cancelled_ms is not None and handle.cancelled_ms < asked_ms


def _note_one_missing(tx: Tx, handle: SentHandle, full: FullSet, terms: Terms) -> set[int]:
    job = job_by_id(tx, handle.job_id)
    if job is None or job.nonce != handle.nonce:
        return set()
    draft = load_draft(tx, job)
    after = mirror.note_missing(handle, draft, full.asked_ms, terms.lost_after_ms, terms.now_ms)
    commit(tx, draft)
    update_sent(tx, handle, after)
    return {job.uid} | end_children(tx, job.job_id, terms.now_ms)


def _believe_unanswered(tx: Tx, peer: str, database_id: str) -> None:
    for handle in open_sent(tx, peer):
        update_sent(tx, handle, handoff.believe_taken(handle, database_id))
