"""Removing rows of the changelog, so that none that a requester needs goes unnoticed.

A row that a later one repeats may go in silence. Any other row takes the cursors behind it along:
its requester's `pruned_seq` is raised in the same transaction. The newest row of all and those
named by cursors in use stay, since a cursor is only as good as its row.
"""

import json
from collections.abc import Collection

from iris_fed.model.limits import REPLAY_WINDOW_MS
from iris_fed.store.db import Tx
from iris_fed.store.requesters import load_requester, raise_pruned

SUPERSEDED_AFTER_MS = 3_600_000
MAX_AGE_MS = REPLAY_WINDOW_MS
MAX_ROWS = 200_000
"""Of one requester that does not read them: beyond, it reads everything anew when it comes."""

_REQUESTERS = (
    "WITH RECURSIVE names (name) AS (SELECT min(requester) FROM federation_changelog UNION ALL"
    " SELECT (SELECT min(requester) FROM federation_changelog WHERE requester > name) FROM names"
    " WHERE name IS NOT NULL) SELECT name FROM names WHERE name IS NOT NULL"
)
"""One look into the index for each name, however many rows there are."""

_REPEATED = (
    "SELECT old.seq FROM (SELECT requester, nonce, job_id, task_index, max(seq) AS seq FROM federation_changelog"
    " WHERE seq > ? AND seq <= ? GROUP BY requester, nonce, job_id, task_index) AS new"
    " CROSS JOIN federation_changelog AS old ON old.requester = new.requester AND old.nonce = new.nonce"
    " AND old.job_id = new.job_id AND old.task_index IS new.task_index AND old.seq < new.seq"
)


def requesters_with_rows(tx: Tx) -> list[str]:
    """Trusted still or not."""
    return [row["name"] for row in tx.execute(_REQUESTERS)]


def remove_superseded(tx: Tx, after_seq: int, before_ms: int, told: Collection[int], limit: int) -> int:
    """Looks at up to `limit` rows behind `after_seq` that were written before `before_ms`, and removes
    the earlier rows that they repeat; at most twice as many, if it was done up to `after_seq` already.

    `told` are sequences of cursors in use that no row of `federation_requesters` names yet. Returns
    the sequence up to which it is done.
    """
    last = after_seq
    rows = tx.execute(
        "SELECT seq, time_ms FROM federation_changelog WHERE seq > ? ORDER BY seq LIMIT ?", (after_seq, limit)
    )
    for row in rows.fetchall():
        if row["time_ms"] >= before_ms:
            break
        last = row["seq"]
    if last > after_seq:
        tx.execute(
            f"DELETE FROM federation_changelog WHERE seq IN ({_REPEATED})"
            " AND seq NOT IN (SELECT value FROM json_each(?))",
            (after_seq, last, _kept(tx, told)),
        )
    return last


def bound_of(tx: Tx, requester: str, before_ms: int) -> int:
    """The requester's rows up to this sequence may go: it has read them, they were written before
    `before_ms`, or there are too many behind them. 0 = none."""
    surplus = tx.execute(
        "SELECT seq FROM federation_changelog WHERE requester = ? ORDER BY seq DESC LIMIT 1 OFFSET ?",
        (requester, MAX_ROWS),
    ).fetchone()
    young = tx.execute(
        "SELECT seq FROM federation_changelog WHERE requester = ? AND time_ms >= ? ORDER BY seq LIMIT 1",
        (requester, before_ms),
    ).fetchone()
    newest = tx.execute("SELECT max(seq) AS seq FROM federation_changelog").fetchone()["seq"] or 0
    acked_seq = load_requester(tx, requester).acked_seq or 0
    return max(acked_seq, surplus["seq"] if surplus else 0, young["seq"] - 1 if young else newest)


def remove_up_to(tx: Tx, requester: str, bound: int, told: Collection[int], limit: int) -> int:
    """Removes the requester's oldest rows, at most `limit` and none beyond `bound`; returns how many."""
    rows = tx.execute(
        "SELECT seq FROM federation_changelog WHERE requester = ? AND seq <= ?"
        " AND seq NOT IN (SELECT value FROM json_each(?)) ORDER BY seq LIMIT ?",
        (requester, bound, _kept(tx, told), limit),
    ).fetchall()
    if rows:
        seqs = [row["seq"] for row in rows]
        gone = json.dumps(seqs)
        tx.execute("DELETE FROM federation_changelog WHERE seq IN (SELECT value FROM json_each(?))", (gone,))
        raise_pruned(tx, requester, seqs[-1])
    return len(rows)


def _kept(tx: Tx, told: Collection[int]) -> str:
    rows = tx.execute(
        "SELECT acked_seq AS seq FROM federation_requesters WHERE acked_seq IS NOT NULL"
        " UNION ALL SELECT max(seq) FROM federation_changelog"
    )
    return json.dumps([*told, *(row["seq"] for row in rows if row["seq"] is not None)])
