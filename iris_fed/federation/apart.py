"""Applies one row of a peer's feed so that one that cannot be does not hold up those behind it."""

import sqlite3
from collections.abc import Callable

from iris_fed.errors import IllegalTransition
from iris_fed.federation.mirror_children import OrphanChild
from iris_fed.model.federation import SentHandle
from iris_fed.store.commit import StaleDraft
from iris_fed.store.db import Tx
from iris_fed.telemetry import get_logger

log = get_logger(__name__)


def apply_apart(tx: Tx, handle: SentHandle, apply: Callable[[], set[int]]) -> set[int] | None:
    """What `apply` did; None when the rows here do not allow it: then it did nothing."""
    tx.execute("SAVEPOINT row")
    try:
        changed = apply()
    except (IllegalTransition, StaleDraft, OrphanChild, sqlite3.IntegrityError) as error:
        log.error("sync.row_refused", peer=handle.peer, job=handle.job_id, nonce=handle.nonce, exc_info=error)
        tx.execute("ROLLBACK TO row")
        changed = None
    tx.execute("RELEASE row")
    return changed
