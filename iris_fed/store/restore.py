"""Putting a backup in the place of a controller's database (design, section 6, "Restore")."""

import contextlib
import hashlib
import os
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from iris_fed.clock import SystemClock
from iris_fed.errors import ConfigError, FailedPrecondition, NotFound
from iris_fed.store.backup import explained, open_at_rest, read_owner, refuse_damaged, sync_file
from iris_fed.store.bundles import BUNDLES_FOLDER, sync_folder
from iris_fed.store.connection import connect_sqlite
from iris_fed.store.db import Tx
from iris_fed.store.lock import StateLock, prepare_state_dir
from iris_fed.store.meta import ClusterMeta, RestoreMark, mark_restored, read_meta, taken_at
from iris_fed.store.migrate import load_migrations, migrate
from iris_fed.store.opening import DATABASE_NAME


@dataclass(frozen=True, slots=True)
class Restored:
    """`taken_ms`: of the backup, epoch ms. `kept` is the database that stood there before, if any; where that was
    not `kept_readable`, its id is not known, and attempts that it started will be taken for strangers."""

    cluster: str
    database_id: str
    taken_ms: int
    kept: Path | None
    kept_readable: bool
    bundles: int


def restore_database(backup: Path, state_dir: Path, fresh_id: str, now_ms: int, cluster: str = "") -> Restored:
    """Put the copy `backup` in the place of the database in `state_dir`, as a new life `fresh_id` of it.

    What stood there is kept aside. The controller that starts on it next meets what runs, and ends
    what may have run since. Raises NotFound; ConfigError when a controller runs there, or `backup`
    belongs to another cluster (than `cluster`, or than the present database) or to newer code;
    FailedPrecondition when it is damaged; ResourceExhausted.
    """
    if not backup.is_file():
        raise NotFound(f"there is no backup {backup}")
    prepare_state_dir(state_dir)
    lock = StateLock(state_dir)
    draft = state_dir / f".{DATABASE_NAME}.restoring"
    path = state_dir / DATABASE_NAME
    try:
        with explained(f"cannot restore {backup}", draft):
            _copy(backup, draft)
            former = _settle(path) if path.exists() else None
            with contextlib.closing(connect_sqlite(draft, SystemClock(), set())) as tx:
                taken_ms = taken_at(tx) or int(backup.stat().st_mtime * 1000)
                meta, bundles = _begin_anew(tx, state_dir, former, cluster, RestoreMark(taken_ms, now_ms, 0), fresh_id)
            sync_file(draft)
            kept = _put_in_place(draft, path, now_ms)
    finally:
        lock.release()
    return Restored(meta.name, fresh_id, taken_ms, kept, former is not None, bundles)


def jobs_to_settle(tx: Tx, mark: RestoreMark) -> list[int]:
    """Uids, latest first, of the jobs here that the backup knew as unfinished, and that have not ended since."""
    rows = tx.execute(
        "SELECT uid FROM jobs WHERE finished_ms IS NULL AND cluster = '' AND uid <= ? ORDER BY uid DESC",
        (mark.last_job_uid,),
    )
    return [row["uid"] for row in rows.fetchall()]


def _copy(backup: Path, draft: Path) -> None:
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with (
        contextlib.closing(open_at_rest(backup, "ro")) as source,
        contextlib.closing(open_at_rest(draft, "rw")) as target,
    ):
        read_owner(source, backup)
        refuse_damaged(source, backup, f"the backup {backup}")
        source.backup(target)
        refuse_damaged(target, draft, f"the backup {backup}")


def _settle(path: Path) -> ClusterMeta | None:
    """Bring what its log holds into the present database, so that its file alone is all of it; None =
    it cannot be read. Raises FailedPrecondition when another process has it open: that one would take
    the new database's log for its own.
    """
    try:
        with contextlib.closing(open_at_rest(path, "rw")) as tx:
            tx.execute("PRAGMA journal_mode=DELETE").fetchall()
            return read_meta(tx)
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise FailedPrecondition(f"another process has {path} open; end that one first") from None
        return None
    except (sqlite3.DatabaseError, KeyError):
        return None


def _begin_anew(
    tx: Tx, state_dir: Path, former: ClusterMeta | None, cluster: str, mark: RestoreMark, fresh_id: str
) -> tuple[ClusterMeta, int]:
    migrate(tx, load_migrations(), mark.restored_ms)
    meta = read_meta(tx)
    wanted = cluster or (former.name if former is not None else meta.name)
    if meta.name != wanted:
        raise ConfigError(f"the backup belongs to cluster {meta.name!r}, but this is {wanted!r}")
    bundles = _put_bundles(tx, state_dir / BUNDLES_FOLDER)
    ids = meta.ancestor_ids | {meta.database_id}
    if former is not None and former.name == meta.name:
        # Whatever the life that ends here has started is not in the copy, and nobody else will ever stop it.
        ids |= former.ancestor_ids | {former.database_id}
    tx.execute("BEGIN IMMEDIATE")
    last_uid = tx.execute("SELECT coalesce(max(uid), 0) AS uid FROM jobs").fetchone()["uid"]
    mark_restored(tx, fresh_id, ids, RestoreMark(mark.taken_ms, mark.restored_ms, last_uid))
    _doubt_peers(tx)
    tx.execute("DROP TABLE IF EXISTS backup_bundles")
    tx.execute("COMMIT")
    return meta, bundles


def _doubt_peers(tx: Tx) -> None:
    """Peers may have gone on, and may have been told what this copy does not know of."""
    tx.execute("UPDATE federation_peers SET cursor = '', full_set_done = 0")
    tx.execute("UPDATE federated_jobs SET missing_since_ms = NULL WHERE direction = 'SENT' AND state <> 'CLOSED'")
    tx.execute(
        "UPDATE federated_jobs SET sent = 1, unanswered = 1, next_try_ms = 0"
        " WHERE direction = 'SENT' AND state = 'PENDING_HANDOFF'"
    )


def _put_bundles(tx: Tx, folder: Path) -> int:
    if not tx.execute("SELECT 1 FROM sqlite_master WHERE name = 'backup_bundles'").fetchone():
        return 0
    count = 0
    for row in tx.execute("SELECT DISTINCT bundle_id AS id FROM backup_bundles").fetchall():
        if not (folder / row["id"]).exists():
            _put_bundle(tx, folder, row["id"])
        count += 1
    return count


def _put_bundle(tx: Tx, folder: Path, bundle_id: str) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    digest = hashlib.sha256()
    draft = folder / f".{bundle_id}.restoring"
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        parts = tx.execute("SELECT data FROM backup_bundles WHERE bundle_id = ? ORDER BY part", (bundle_id,))
        for part in parts:
            digest.update(part["data"])
            file.write(part["data"])
        file.flush()
        os.fsync(file.fileno())
    if digest.hexdigest() != bundle_id:
        draft.unlink()
        raise FailedPrecondition(f"the backup is damaged: its bundle {bundle_id} is not what it was")
    os.replace(draft, folder / bundle_id)
    sync_folder(folder)


def _put_in_place(draft: Path, path: Path, now_ms: int) -> Path | None:
    """There is a whole database under `path` at every moment, the former or the new one."""
    at = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S")
    aside = path.with_name(f"{path.name}.before-restore-{at}.{now_ms % 1000:03d}Z")
    kept = aside if path.exists() else None
    if kept is not None:
        os.link(path, kept)
    for suffix in ("-wal", "-shm"):
        left = path.with_name(path.name + suffix)
        if left.exists():
            # Of a database that could not be read. Beside the new one it would be taken for its own.
            os.replace(left, aside.with_name(aside.name + suffix))
    os.replace(draft, path)
    sync_folder(path.parent)
    return kept
