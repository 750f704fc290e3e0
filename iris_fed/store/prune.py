"""Finding and removing what is past its retention."""

from dataclasses import replace

from iris_fed.model.limits import DAY_MS
from iris_fed.model.states import ReceivedState
from iris_fed.store.db import Tx
from iris_fed.store.handles import change_received, received_by_nonce
from iris_fed.store.jobs import job_by_uid

RECEIVED_AT_LEAST_MS = 7 * DAY_MS
"""An Iris parent keeps its jobs that long, and deletes its own record with ours (wire contract)."""

_TREE = (
    "WITH RECURSIVE tree(uid) AS (SELECT ? UNION ALL SELECT jobs.uid FROM jobs JOIN tree ON jobs.parent_uid = tree.uid)"
)


def expired_files(tx: Tx, before_ms: int, limit: int) -> list[tuple[str, str]]:
    """Backend id and uid of ended attempts here whose files are still there, oldest first."""
    rows = tx.execute(
        "SELECT backend_id, attempt_uid FROM attempts WHERE mirrored = 0 AND files_gone = 0"
        " AND finished_ms IS NOT NULL AND finished_ms < ? ORDER BY finished_ms LIMIT ?",
        (before_ms, limit),
    )
    return [(row["backend_id"], row["attempt_uid"]) for row in rows]


def mark_files_gone(tx: Tx, attempt_uids: list[str]) -> None:
    tx.executemany(
        "UPDATE attempts SET files_gone = 1 WHERE mirrored = 0 AND attempt_uid = ?", [(uid,) for uid in attempt_uids]
    )


def expired_jobs(tx: Tx, now_ms: int, before_ms: int, limit: int) -> list[int]:
    """Uids of finished root jobs whose whole tree is over and which no open handle needs."""
    rows = tx.execute(
        "SELECT uid FROM jobs WHERE parent_uid IS NULL AND finished_ms IS NOT NULL AND finished_ms < ?"
        " AND (requester = '' OR finished_ms < ?)"
        " AND NOT EXISTS (SELECT 1 FROM federated_jobs f WHERE f.direction = 'SENT' AND f.state <> 'CLOSED'"
        " AND f.job_id = jobs.job_id)"
        " AND NOT EXISTS (WITH RECURSIVE tree(uid) AS (SELECT jobs.uid UNION ALL"
        " SELECT below.uid FROM jobs AS below JOIN tree ON below.parent_uid = tree.uid)"
        " SELECT 1 FROM tree JOIN jobs AS one ON one.uid = tree.uid WHERE one.finished_ms IS NULL)"
        " ORDER BY finished_ms LIMIT ?",
        (before_ms, now_ms - RECEIVED_AT_LEAST_MS, limit),
    )
    return [row["uid"] for row in rows]


def remove_job(tx: Tx, uid: int, now_ms: int) -> list[tuple[str, str]]:
    """Removes a job with its tree; a received one leaves its handle, PRUNED, which keeps how it ended.

    Returns backend id and uid of the attempts here whose files may go.
    """
    job = job_by_uid(tx, uid)
    if job is None or job.finished_ms is None:
        return []
    if job.requester and job.parent_uid is None:
        handle = received_by_nonce(tx, job.requester, job.nonce)
        if handle is not None and handle.state is ReceivedState.ADMITTED:
            pruned = replace(
                handle,
                state=ReceivedState.PRUNED,
                closed_ms=now_ms,
                end_state=job.state,
                end_error=job.error,
                end_exit_code=job.exit_code,
                end_finished_ms=job.finished_ms,
            )
            change_received(tx, handle, pruned)
    rows = tx.execute(
        f"{_TREE} SELECT backend_id, attempt_uid FROM attempts JOIN tree ON attempts.job_uid = tree.uid"
        " WHERE mirrored = 0",
        (uid,),
    ).fetchall()
    tx.execute("DELETE FROM jobs WHERE uid = ?", (uid,))
    return [(row["backend_id"], row["attempt_uid"]) for row in rows]
