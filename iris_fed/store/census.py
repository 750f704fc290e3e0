"""Counts for whoever watches over a controller: none of them walks through finished tasks."""

from collections.abc import Mapping
from dataclasses import dataclass

from iris_fed.store.db import Tx


@dataclass(frozen=True, slots=True)
class Census:
    """Jobs by state. Tasks here that wait (PENDING) or live, by state; when the job that waits longest was
    submitted (epoch ms, None = none waits). Changelog rows; for each requester, when the oldest of them that it
    has not read was written (epoch ms)."""

    jobs: Mapping[str, int]
    tasks: Mapping[str, int]
    oldest_waiting_ms: int | None
    changelog_rows: int
    unread_since_ms: Mapping[str, int]


def take_census(tx: Tx, acked: Mapping[str, int | None]) -> Census:
    """`acked`: up to which changelog row each requester has read, None = nothing."""
    jobs = {row["state"]: row["n"] for row in tx.execute("SELECT state, count(*) AS n FROM jobs GROUP BY state")}
    live = tx.execute(
        "SELECT state, count(*) AS n FROM attempts WHERE mirrored = 0 AND finished_ms IS NULL GROUP BY state"
    )
    waiting = tx.execute(
        "SELECT coalesce(sum(queued_tasks), 0) AS n, min(submitted_ms) AS since FROM jobs WHERE queued_tasks > 0"
    ).fetchone()
    (rows,) = tx.execute("SELECT count(*) FROM federation_changelog").fetchone()
    unread = {requester: _unread_since(tx, requester, seq or 0) for requester, seq in acked.items()}
    return Census(
        jobs,
        {row["state"]: row["n"] for row in live} | {"PENDING": waiting["n"]},
        waiting["since"],
        rows,
        {requester: since for requester, since in unread.items() if since is not None},
    )


def _unread_since(tx: Tx, requester: str, seq: int) -> int | None:
    row = tx.execute(
        "SELECT time_ms FROM federation_changelog WHERE requester = ? AND seq > ? ORDER BY seq LIMIT 1",
        (requester, seq),
    ).fetchone()
    return None if row is None else int(row["time_ms"])
