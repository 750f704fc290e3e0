"""Rows of `federated_jobs` and `federation_peers`. Changes are compare-and-set on nonce and state."""

from dataclasses import replace

from iris_fed.errors import IllegalTransition
from iris_fed.model.federation import PeerState, ReceivedHandle, SentHandle
from iris_fed.model.jobs import Job
from iris_fed.model.states import RECEIVED_TRANSITIONS, SENT_TRANSITIONS, ReceivedState, SentState
from iris_fed.store.commit import StaleDraft
from iris_fed.store.db import Tx
from iris_fed.store.jobs import insert, job_by_uid
from iris_fed.store.rows import (
    PEER_COLUMNS,
    RECEIVED_COLUMNS,
    SENT_COLUMNS,
    Columns,
    changed_columns,
    peer_from_row,
    received_from_row,
    sent_from_row,
    to_columns,
)


def insert_sent(tx: Tx, handle: SentHandle) -> None:
    insert(tx, "federated_jobs", {"direction": "SENT"} | to_columns(handle, SENT_COLUMNS))


def update_sent(tx: Tx, before: SentHandle, after: SentHandle) -> None:
    """Raises IllegalTransition for a state change that is none."""
    if after.state is not before.state and after.state not in SENT_TRANSITIONS[before.state]:
        raise IllegalTransition(f"handle {before.nonce} of {before.job_id}", before.state, after.state)
    _update(tx, "SENT", before.peer, before.nonce, before.state.value, changed_columns(before, after, SENT_COLUMNS))


def reopen_sent(tx: Tx, before: SentHandle, after: SentHandle) -> None:
    """The peer shows again what was closed as lost. Raises IllegalTransition for any other handle."""
    if before.state is not SentState.CLOSED or not before.lost or after.state is not SentState.HANDED_OFF:
        raise IllegalTransition(f"handle {before.nonce} of {before.job_id}", before.state, after.state)
    _update(tx, "SENT", before.peer, before.nonce, before.state.value, changed_columns(before, after, SENT_COLUMNS))


def sent_by_nonce(tx: Tx, peer: str, nonce: str) -> SentHandle | None:
    row = tx.execute(
        "SELECT * FROM federated_jobs WHERE direction = 'SENT' AND counterpart = ? AND nonce = ?", (peer, nonce)
    ).fetchone()
    return sent_from_row(row) if row else None


def open_sent_by_job(tx: Tx, job_id: str) -> SentHandle | None:
    row = tx.execute(
        "SELECT * FROM federated_jobs WHERE direction = 'SENT' AND state <> 'CLOSED' AND job_id = ?", (job_id,)
    ).fetchone()
    return sent_from_row(row) if row else None


def open_sent(tx: Tx, peer: str) -> list[SentHandle]:
    rows = tx.execute(
        "SELECT * FROM federated_jobs WHERE direction = 'SENT' AND state <> 'CLOSED' AND counterpart = ? ORDER BY id",
        (peer,),
    )
    return [sent_from_row(row) for row in rows]


def open_sent_page(tx: Tx, peer: str, after_id: int, limit: int) -> list[tuple[int, SentHandle]]:
    """Open handles with their row ids, oldest first."""
    rows = tx.execute(
        "SELECT * FROM federated_jobs WHERE direction = 'SENT' AND state <> 'CLOSED' AND counterpart = ? AND id > ?"
        " ORDER BY id LIMIT ?",
        (peer, after_id, limit),
    )
    return [(row["id"], sent_from_row(row)) for row in rows]


def due_sent(tx: Tx, peer: str, now_ms: int, limit: int) -> list[SentHandle]:
    """Open handles with something to send now: a delivery, a cancel, or an expiry; longest due first."""
    rows = tx.execute(
        f"SELECT * FROM {_OUTBOX_ROWS} AND (next_try_ms <= ? OR {_EXPIRES} <= ?) ORDER BY next_try_ms, id LIMIT ?",
        (peer, now_ms, now_ms, limit),
    )
    return [sent_from_row(row) for row in rows]


def next_due_ms(tx: Tx, peer: str) -> int | None:
    """When the outbox of this peer has something to send next, epoch ms."""
    row = tx.execute(f"SELECT min(min(next_try_ms, {_EXPIRES})) AS at FROM {_OUTBOX_ROWS}", (peer,)).fetchone()
    return None if row["at"] is None else int(row["at"])


def is_news_overdue(tx: Tx, peer: str, before_ms: int) -> bool:
    """Whether a job that was acknowledged before then was never reported, or one whose cancel was
    acknowledged has not ended."""
    unreported = tx.execute(
        "SELECT 1 FROM jobs j JOIN federated_jobs f ON f.direction = 'SENT' AND f.counterpart = j.cluster"
        " AND f.nonce = j.nonce WHERE j.cluster = ? AND j.peer_status = 'ASSIGNED' AND j.finished_ms IS NULL"
        " AND f.state = 'HANDED_OFF' AND f.missing_since_ms IS NULL AND f.acked_ms < ? LIMIT 1",
        (peer, before_ms),
    ).fetchone()
    unended = tx.execute(
        "SELECT 1 FROM federated_jobs INDEXED BY federated_jobs_cancel_heard"
        " WHERE direction = 'SENT' AND state <> 'CLOSED' AND counterpart = ?"
        " AND cancel_acked = 1 AND cancelled_ms < ? AND missing_since_ms IS NULL LIMIT 1",
        (peer, before_ms),
    ).fetchone()
    return unreported is not None or unended is not None


def is_any_missing(tx: Tx, peer: str) -> bool:
    """Whether the last full set lacked a job that the peer had acknowledged."""
    row = tx.execute(
        "SELECT 1 FROM federated_jobs INDEXED BY federated_jobs_missing"
        " WHERE direction = 'SENT' AND state <> 'CLOSED' AND counterpart = ? AND missing_since_ms IS NOT NULL LIMIT 1",
        (peer,),
    ).fetchone()
    return row is not None


def left_behind(tx: Tx, peer: str, before_ms: int) -> list[tuple[Job, SentHandle]]:
    """Unfinished mirrored children whose root was over before then, with its handle; a parent first."""
    rows = tx.execute(
        "SELECT j.uid, f.nonce FROM jobs j JOIN federated_jobs f ON f.direction = 'SENT' AND f.counterpart = j.cluster"
        " AND f.nonce = j.nonce WHERE j.cluster = ? AND j.cluster <> ''"
        " AND j.parent_uid IS NOT NULL AND j.finished_ms IS NULL"
        " AND f.state = 'CLOSED' AND f.closed_ms < ? ORDER BY j.uid",
        (peer, before_ms),
    ).fetchall()
    found = [(job_by_uid(tx, row["uid"]), sent_by_nonce(tx, peer, row["nonce"])) for row in rows]
    return [(job, handle) for job, handle in found if job is not None and handle is not None]


def cancelled_children(tx: Tx, peer: str) -> list[tuple[str, str]]:
    """Mirrored children whose end was asked for and has not come: job id here, nonce of their root."""
    rows = tx.execute(
        "SELECT job_id, nonce FROM jobs WHERE cluster = ? AND parent_uid IS NOT NULL"
        " AND finished_ms IS NULL AND cancel_requested_ms IS NOT NULL",
        (peer,),
    )
    return [(row["job_id"], row["nonce"]) for row in rows]


def count_open_sent(tx: Tx) -> dict[str, int]:
    rows = tx.execute(
        "SELECT counterpart, count(*) AS n FROM federated_jobs"
        " WHERE direction = 'SENT' AND state <> 'CLOSED' GROUP BY counterpart"
    )
    return {row["counterpart"]: row["n"] for row in rows}


def count_waiting_sent(tx: Tx) -> dict[str, int]:
    """Jobs that a peer has not acknowledged, by peer."""
    rows = tx.execute(
        "SELECT counterpart, count(*) AS n FROM federated_jobs"
        " WHERE direction = 'SENT' AND state = 'PENDING_HANDOFF' GROUP BY counterpart"
    )
    return {row["counterpart"]: row["n"] for row in rows}


def is_meant(tx: Tx, job: Job, nonce: str) -> bool:
    """Whether the handoff `nonce` ("" = any) means this job. One that was answered with the job of an earlier
    handoff (KEEP) left no handle, and means that job."""
    return nonce in ("", job.nonce) or received_by_nonce(tx, job.requester, nonce) is None


def received_by_nonce(tx: Tx, requester: str, nonce: str) -> ReceivedHandle | None:
    row = tx.execute(
        "SELECT * FROM federated_jobs WHERE direction = 'RECEIVED' AND counterpart = ? AND nonce = ?",
        (requester, nonce),
    ).fetchone()
    return received_from_row(row) if row else None


def count_fences(tx: Tx, requester: str, most: int) -> int:
    """How many cancels of jobs that never arrived are kept for that cluster, counted up to `most`."""
    row = tx.execute(
        "SELECT count(*) AS n FROM (SELECT 1 FROM federated_jobs"
        " WHERE direction = 'RECEIVED' AND counterpart = ? AND state = 'FENCED' LIMIT ?)",
        (requester, most),
    ).fetchone()
    return int(row["n"])


def insert_received(tx: Tx, handle: ReceivedHandle) -> None:
    insert(tx, "federated_jobs", {"direction": "RECEIVED"} | to_columns(handle, RECEIVED_COLUMNS))


def supersede_received(tx: Tx, job: Job, now_ms: int) -> None:
    """A finished received job gives way to a new incarnation; its handle keeps how it ended."""
    handle = received_by_nonce(tx, job.requester, job.nonce)
    if handle is None or handle.state not in (ReceivedState.ADMITTED, ReceivedState.PRUNED):
        return
    after = replace(
        handle,
        state=ReceivedState.SUPERSEDED,
        closed_ms=now_ms,
        end_state=job.state,
        end_error=job.error,
        end_exit_code=job.exit_code,
        end_finished_ms=job.finished_ms,
    )
    change_received(tx, handle, after)


def change_received(tx: Tx, before: ReceivedHandle, after: ReceivedHandle) -> None:
    """Raises IllegalTransition for a state change that is none."""
    if after.state is not before.state and after.state not in RECEIVED_TRANSITIONS[before.state]:
        raise IllegalTransition(f"handle {before.nonce} of {before.job_id}", before.state, after.state)
    changes = changed_columns(before, after, RECEIVED_COLUMNS)
    _update(tx, "RECEIVED", before.requester, before.nonce, before.state.value, changes)


def received_page(tx: Tx, requester: str, after_id: int, limit: int) -> list[tuple[int, ReceivedHandle]]:
    """All handles of a requester but the superseded, in the order of arrival, with their row ids."""
    rows = tx.execute(
        "SELECT * FROM federated_jobs WHERE direction = 'RECEIVED' AND counterpart = ? AND id > ?"
        " AND state <> 'SUPERSEDED' ORDER BY id LIMIT ?",
        (requester, after_id, limit),
    )
    return [(row["id"], received_from_row(row)) for row in rows]


def load_peer(tx: Tx, peer: str) -> PeerState:
    row = tx.execute("SELECT * FROM federation_peers WHERE peer = ?", (peer,)).fetchone()
    return peer_from_row(row) if row else PeerState(peer=peer)


def forget_cursor(tx: Tx, peer: str) -> None:
    """The next thing to ask this peer for is everything that it holds."""
    tx.execute("UPDATE federation_peers SET cursor = '', full_set_done = 0 WHERE peer = ?", (peer,))


def save_peer(tx: Tx, state: PeerState) -> None:
    columns = to_columns(state, PEER_COLUMNS)
    assignments = ", ".join(f"{name} = excluded.{name}" for name in columns if name != "peer")
    tx.execute(
        f"INSERT INTO federation_peers ({', '.join(columns)}) VALUES ({', '.join('?' for _ in columns)})"
        f" ON CONFLICT (peer) DO UPDATE SET {assignments}",
        list(columns.values()),
    )


# Indexes are named where the planner, which counts nothing, would walk all handles of a peer instead.
_OUTBOX_ROWS = (
    "federated_jobs INDEXED BY federated_jobs_outbox WHERE direction = 'SENT' AND state <> 'CLOSED' AND counterpart = ?"
    " AND (state = 'PENDING_HANDOFF' AND cancelled_ms IS NULL OR cancelled_ms IS NOT NULL AND cancel_acked = 0)"
)
_EXPIRES = "CASE WHEN state = 'PENDING_HANDOFF' AND cancelled_ms IS NULL THEN expires_ms ELSE 9223372036854775807 END"


def _update(tx: Tx, direction: str, counterpart: str, nonce: str, state: str, changes: Columns) -> None:
    if not changes:
        return
    cursor = tx.execute(
        f"UPDATE federated_jobs SET {', '.join(f'{name} = ?' for name in changes)}"
        " WHERE direction = ? AND counterpart = ? AND nonce = ? AND state = ?",
        [*changes.values(), direction, counterpart, nonce, state],
    )
    if cursor.rowcount != 1:
        raise StaleDraft(f"handle {nonce} changed under a decision")
