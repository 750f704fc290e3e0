"""What a peer remembers of each requester: how far it has read, and what it cannot read any more."""

from collections.abc import Mapping
from dataclasses import dataclass

from iris_fed.store.db import Tx


@dataclass(frozen=True, slots=True)
class Requester:
    """`acked_seq`: it has applied every row up to there, None = not known. `pruned_seq`: rows of it up to
    there may be gone without a later one that tells the same."""

    requester: str
    acked_seq: int | None = None
    pruned_seq: int = 0


@dataclass(frozen=True, slots=True)
class Heard:
    """What a requester's latest requests have shown. `acked_seq` None = no cursor so far that was current;
    `told_seq` is that of the cursor it was given last, with which it may come next."""

    acked_seq: int | None
    told_seq: int
    at_ms: int


def load_requester(tx: Tx, requester: str) -> Requester:
    row = tx.execute(
        "SELECT acked_seq, pruned_seq FROM federation_requesters WHERE requester = ?", (requester,)
    ).fetchone()
    return Requester(requester, row["acked_seq"], row["pruned_seq"]) if row else Requester(requester)


def save_heard(tx: Tx, heard: Mapping[str, Heard]) -> None:
    """An acknowledged cursor may go back: a parent may have been restored from a backup."""
    tx.executemany(
        "INSERT INTO federation_requesters (requester, acked_seq, last_sync_ms) VALUES (?, ?, ?)"
        " ON CONFLICT (requester) DO UPDATE SET acked_seq = coalesce(excluded.acked_seq, acked_seq),"
        " last_sync_ms = excluded.last_sync_ms",
        [(requester, one.acked_seq, one.at_ms) for requester, one in heard.items()],
    )


def raise_pruned(tx: Tx, requester: str, seq: int) -> None:
    """In the transaction that removes news of the requester up to `seq`: older cursors of it are stale."""
    tx.execute(
        "INSERT INTO federation_requesters (requester, pruned_seq) VALUES (?, ?)"
        " ON CONFLICT (requester) DO UPDATE SET pruned_seq = max(pruned_seq, excluded.pruned_seq)",
        (requester, seq),
    )
