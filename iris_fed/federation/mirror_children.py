"""Mirrors what is below a handed-off root: its children run on the peer and have no handle of their own."""

from iris_fed.decide import lifecycle, mirror
from iris_fed.decide.draft import Draft
from iris_fed.model.federation import Delta, SentHandle
from iris_fed.model.jobs import Job
from iris_fed.model.states import SentState
from iris_fed.store.commit import commit
from iris_fed.store.db import Tx
from iris_fed.store.jobs import attempts_of, delete_job, insert_job, job_by_id, load_draft
from iris_fed.store.tree import change_unfinished_below


class OrphanChild(ValueError):
    """A child whose parent is not mirrored: the feed tells no child without its root."""


def follow_child(tx: Tx, handle: SentHandle, delta: Delta, now_ms: int) -> set[int]:
    """Returns the uids of what changed. Raises OrphanChild. What is below a child that ended is left to
    `end_children`, once all that came with it was heard. Nothing changes when another incarnation of the
    root has taken its place here."""
    root = job_by_id(tx, handle.job_id)
    if handle.state is SentState.CLOSED and (root is None or root.nonce != handle.nonce):
        return set()
    child = _find_or_make(tx, handle, delta, now_ms)
    if child is None:
        return set()
    indexes = [task.index for task in delta.tasks]
    draft = load_draft(tx, child, indexes)
    draft = Draft(child, draft.tasks.values(), attempts_of(tx, child.uid, indexes), draft.counts, draft.first_failed)
    mirror.follow_child(handle.peer, draft, delta, now_ms)
    return {child.uid} if commit(tx, draft) else set()


def end_children(tx: Tx, job_id: str, now_ms: int) -> set[int]:
    """A mirrored job is over in a way that nothing more is heard of what is below it."""
    job = job_by_id(tx, job_id)
    if job is None or job.finished_ms is None:
        return set()
    return change_unfinished_below(tx, job.uid, lambda draft: lifecycle.end_with_parent(draft, job, now_ms))


def end_left_behind(tx: Tx, child: Job, now_ms: int) -> set[int]:
    """The root of `child` is over, and its peer does not know the child any more."""
    parent = job_by_id(tx, child.job_id.rpartition("/")[0])
    draft = load_draft(tx, child)
    if parent is None:
        return set()
    lifecycle.end_with_parent(draft, parent, now_ms)
    return {child.uid} if commit(tx, draft) else set()


def _find_or_make(tx: Tx, handle: SentHandle, delta: Delta, now_ms: int) -> Job | None:
    job_id = mirror.local_id_of(handle, delta.job_id)
    child = job_by_id(tx, job_id)
    if child is not None and child.nonce != handle.nonce:
        raise OrphanChild(f"{job_id} belongs to another incarnation of its root")
    report = delta.report
    if report is None or delta.tombstone:
        return child
    if child is not None and mirror.is_another(child, report):
        delete_job(tx, child.uid)
        child = None
    if child is not None:
        return child
    parent = job_by_id(tx, job_id.rpartition("/")[0])
    if parent is None or parent.nonce != handle.nonce:
        raise OrphanChild(f"{job_id} has no parent here")
    return insert_job(tx, mirror.mirrored_child(parent, job_id, report, now_ms))
