"""Removing handles that no late message can ask for any more (design, section 6, "Handles")."""

import json
from dataclasses import dataclass

from iris_fed.model.limits import REPLAY_WINDOW_MS
from iris_fed.store.db import Tx
from iris_fed.store.requesters import load_requester, raise_pruned

MAX_WINDOWS = 4
"""So long a received handle waits for its requester to read its last change."""


@dataclass(frozen=True, slots=True)
class Place:
    """How far one has looked: handles in the order in which they were closed."""

    closed_ms: int = -1
    id: int = 0


START = Place()

_LAST_CHANGE = "SELECT max(+seq) AS seq FROM federation_changelog WHERE requester = ? AND nonce = ?"
"""`+` keeps SQLite from walking all of the requester's rows backwards in search of the nonce."""


def remove_sent(tx: Tx, after: Place, now_ms: int, limit: int) -> Place:
    """Looks at up to `limit` handles behind `after` that were closed longer ago than the window, and
    removes those whose job is gone, or is another incarnation. Returns how far it has looked;
    START = to the end."""
    rows = tx.execute(
        "SELECT f.id, f.closed_ms, EXISTS (SELECT 1 FROM jobs j WHERE j.job_id = f.job_id AND j.nonce = f.nonce)"
        " AS needed FROM federated_jobs f WHERE f.direction = 'SENT' AND f.state = 'CLOSED'"
        " AND (f.closed_ms, f.id) > (?, ?) AND f.closed_ms < ? ORDER BY f.closed_ms, f.id LIMIT ?",
        (after.closed_ms, after.id, now_ms - REPLAY_WINDOW_MS, limit),
    ).fetchall()
    _delete(tx, [row["id"] for row in rows if not row["needed"]])
    return Place(rows[-1]["closed_ms"], rows[-1]["id"]) if len(rows) == limit else START


def remove_received(tx: Tx, after: Place, now_ms: int, limit: int) -> Place:
    """The same for received handles whose job is gone: once their requester has read the last change
    of them, or after MAX_WINDOWS. The requester's cursors behind that change are stale from then on."""
    rows = tx.execute(
        "SELECT id, counterpart, nonce, closed_ms FROM federated_jobs WHERE direction = 'RECEIVED'"
        " AND state <> 'ADMITTED' AND (closed_ms, id) > (?, ?) AND closed_ms < ? ORDER BY closed_ms, id LIMIT ?",
        (after.closed_ms, after.id, now_ms - REPLAY_WINDOW_MS, limit),
    ).fetchall()
    overdue_ms = now_ms - MAX_WINDOWS * REPLAY_WINDOW_MS
    ids = []
    for row in rows:
        last = _last_change(tx, row["counterpart"], row["nonce"])
        if row["closed_ms"] < overdue_ms or _has_read(tx, row["counterpart"], last):
            ids.append(row["id"])
            if last:
                raise_pruned(tx, row["counterpart"], last)
    _delete(tx, ids)
    return Place(rows[-1]["closed_ms"], rows[-1]["id"]) if len(rows) == limit else START


def _last_change(tx: Tx, requester: str, nonce: str) -> int:
    return tx.execute(_LAST_CHANGE, (requester, nonce)).fetchone()["seq"] or 0


def _has_read(tx: Tx, requester: str, seq: int) -> bool:
    state = load_requester(tx, requester)
    # What was removed before it was read comes with a full set, which shows the handle.
    return state.acked_seq is not None and max(seq, state.pruned_seq) <= state.acked_seq


def _delete(tx: Tx, ids: list[int]) -> None:
    tx.execute("DELETE FROM federated_jobs WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(ids),))
