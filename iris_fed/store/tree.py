"""A job and what is below it, one after the other."""

from collections.abc import Callable

from iris_fed.decide.draft import Draft
from iris_fed.model.jobs import Job
from iris_fed.store.commit import commit
from iris_fed.store.db import Tx
from iris_fed.store.jobs import load_draft
from iris_fed.store.rows import job_from_row

_BELOW = (
    "WITH RECURSIVE tree(uid) AS (SELECT uid FROM jobs WHERE parent_uid = ? UNION ALL"
    " SELECT jobs.uid FROM jobs JOIN tree ON jobs.parent_uid = tree.uid)"
    " SELECT jobs.* FROM jobs JOIN tree ON tree.uid = jobs.uid WHERE jobs.finished_ms IS NULL"
)


_ALL_BELOW = (
    "WITH RECURSIVE tree(uid) AS (SELECT uid FROM jobs WHERE parent_uid = ? UNION ALL"
    " SELECT jobs.uid FROM jobs JOIN tree ON jobs.parent_uid = tree.uid)"
    " SELECT jobs.* FROM jobs JOIN tree ON tree.uid = jobs.uid WHERE jobs.uid > ? ORDER BY jobs.uid LIMIT ?"
)


def tree_below(tx: Tx, job_uid: int, after_uid: int, limit: int) -> list[Job]:
    """Descendants with a uid beyond `after_uid`, in the order in which they were made: a parent first."""
    return [job_from_row(row) for row in tx.execute(_ALL_BELOW, (job_uid, after_uid, limit)).fetchall()]


def unfinished_below(tx: Tx, job_uid: int) -> list[Job]:
    """Descendants that are not over."""
    return [job_from_row(row) for row in tx.execute(_BELOW, (job_uid,)).fetchall()]


def change_unfinished_below(tx: Tx, job_uid: int, change: Callable[[Draft], None]) -> set[int]:
    """Apply `change` to each unfinished descendant; returns the uids of those it changed."""
    changed = set()
    for job in unfinished_below(tx, job_uid):
        draft = load_draft(tx, job)
        change(draft)
        if commit(tx, draft):
            changed.add(job.uid)
    return changed
