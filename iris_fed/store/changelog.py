"""Reading the changelog of received jobs. Triggers write it (migration 0003).

A cursor names a row by its sequence and stamp, so that a database that was wiped, replaced or
restored cannot pass for the one that gave the cursor (design, "A cursor names a row"). Nor may a
cursor be older than what was removed of its requester's news: its row may still stand because
another requester's cursor names it.
"""

from dataclasses import dataclass

from iris_fed.store.db import Tx
from iris_fed.store.requesters import load_requester


@dataclass(frozen=True, slots=True)
class Change:
    """One row: what it is about. `task_index` None = the job itself."""

    seq: int
    nonce: str
    job_id: str
    task_index: int | None


@dataclass(frozen=True, slots=True)
class Cursor:
    """`seq` 0 is before the first row; its stamp is the database id then."""

    seq: int
    stamp: str

    def __str__(self) -> str:
        return f"{self.seq}.{self.stamp}"


def parse_cursor(text: str) -> Cursor | None:
    """None when it is not one of ours."""
    seq, dot, stamp = text.partition(".")
    if not dot or not seq.isdecimal() or len(seq) > 18 or not stamp:
        return None
    return Cursor(int(seq), stamp)


def newest_cursor(tx: Tx, database_id: str) -> Cursor:
    row = tx.execute("SELECT seq, stamp FROM federation_changelog ORDER BY seq DESC LIMIT 1").fetchone()
    return Cursor(row["seq"], row["stamp"]) if row else Cursor(0, database_id)


def is_current(tx: Tx, cursor: Cursor, requester: str, database_id: str) -> bool:
    """Whether the row that the cursor names is there and bears its stamp, and no news of the requester
    was removed behind it."""
    if cursor.seq < load_requester(tx, requester).pruned_seq:
        return False
    if cursor.seq == 0:
        first = tx.execute("SELECT min(seq) AS seq FROM federation_changelog").fetchone()["seq"]
        return cursor.stamp == database_id and first in (None, 1)
    row = tx.execute("SELECT stamp FROM federation_changelog WHERE seq = ?", (cursor.seq,)).fetchone()
    return row is not None and row["stamp"] == cursor.stamp


def changes_after(tx: Tx, requester: str, seq: int, limit: int) -> list[Change]:
    """The requester's rows behind `seq`, oldest first."""
    rows = tx.execute(
        "SELECT seq, nonce, job_id, task_index FROM federation_changelog"
        " WHERE requester = ? AND seq > ? ORDER BY seq LIMIT ?",
        (requester, seq, limit),
    )
    return [Change(row["seq"], row["nonce"], row["job_id"], row["task_index"]) for row in rows]


def newest_seq_of(tx: Tx, requester: str, nonce: str, job_id: str) -> int:
    """The last row about a job itself, not its tasks; 0 = there is none."""
    row = tx.execute(
        "SELECT max(seq) AS seq FROM federation_changelog"
        " WHERE requester = ? AND nonce = ? AND job_id = ? AND task_index IS NULL",
        (requester, nonce, job_id),
    ).fetchone()
    return row["seq"] or 0


def cursor_at(tx: Tx, seq: int) -> Cursor:
    stamp = tx.execute("SELECT stamp FROM federation_changelog WHERE seq = ?", (seq,)).fetchone()["stamp"]
    return Cursor(seq, stamp)


def touch(tx: Tx, requester: str, nonce: str, job_id: str) -> None:
    """Repeat the present state in the feed although nothing changed: after a replay or a cancel."""
    tx.execute(
        "INSERT INTO federation_changelog (stamp, requester, nonce, job_id, time_ms)"
        " VALUES (changelog_stamp(?), ?, ?, ?, now_ms())",
        (requester, requester, nonce, job_id),
    )
