"""A copy of a controller's database that can be put back (by `store.restore`).

A backup is one file: the database, and in a table of its own the bundles that its unfinished jobs need.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iris_fed.errors import (
    AlreadyExists,
    ConfigError,
    FailedPrecondition,
    InvalidArgument,
    IrisFedError,
    NotFound,
    ResourceExhausted,
)
from iris_fed.store.bundles import BUNDLES_FOLDER, sync_folder
from iris_fed.store.db import Tx
from iris_fed.store.meta import ClusterMeta, mark_taken, read_meta

PART_BYTES = 4 * 1024 * 1024
"""A bundle is stored in parts, since SQLite bounds one value."""
PATIENCE_S = 10.0
"""For a database that somebody else is about to let go."""
_BUNDLES_TABLE = (
    "CREATE TABLE backup_bundles (bundle_id TEXT NOT NULL, part INTEGER NOT NULL, data BLOB NOT NULL,"
    " PRIMARY KEY (bundle_id, part)) STRICT"
)


@dataclass(frozen=True, slots=True)
class Backup:
    """`size` in bytes. `missing_bundles` are needed by unfinished jobs but were not found."""

    path: Path
    cluster: str
    taken_ms: int
    size: int
    unfinished_jobs: int
    bundles: int
    missing_bundles: tuple[str, ...]


def backup_database(source: Path, target: Path, now_ms: int, *, force: bool = False) -> Backup:
    """Copy the database `source`, which may be in use, to `target`; it is there whole or not at all.

    Writers go on meanwhile: the copy is of one read snapshot. Raises NotFound, AlreadyExists,
    InvalidArgument, ResourceExhausted (disk full) and FailedPrecondition (the database is damaged).
    """
    _refuse_paths(source, target, force)
    draft = target.with_name(f".{target.name}.draft")
    with explained(f"cannot write the backup {target}", draft):
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with contextlib.closing(open_at_rest(source, "rw")) as tx:
            read_owner(tx, source)
            # Not the backup API in steps: it starts over whenever another process writes.
            tx.execute("VACUUM INTO ?", (str(draft),))
        with contextlib.closing(open_at_rest(draft, "rw")) as copy:
            made = _complete(copy, draft, source.parent / BUNDLES_FOLDER, target, now_ms)
        size = sync_file(draft)
        os.replace(draft, target)
        sync_folder(target.parent)
    return Backup(target, made.cluster, now_ms, size, made.unfinished_jobs, made.bundles, made.missing_bundles)


def open_at_rest(path: Path, mode: str) -> Tx:
    """An existing file as it is; `mode` is `ro` or `rw`."""
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=PATIENCE_S
    )
    connection.row_factory = sqlite3.Row
    return connection


def read_owner(tx: Tx, path: Path) -> ClusterMeta:
    """Raises ConfigError for what is no controller's database."""
    try:
        return read_meta(tx)
    except (sqlite3.DatabaseError, KeyError) as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOTADB):
            raise ConfigError(f"{path} is no database of a controller") from None
        raise


def refuse_damaged(tx: Tx, path: Path, what: str) -> None:
    """Raises FailedPrecondition unless SQLite finds the whole file `path` sound. What is missing of its last page
    SQLite itself takes for zeros."""
    size, whole = os.stat(path).st_size, _pragma(tx, "page_count") * _pragma(tx, "page_size")
    if size < whole:
        raise FailedPrecondition(f"{what} is damaged (it was cut off at {size} of {whole} bytes); nothing was changed")
    found = [row[0] for row in tx.execute("PRAGMA integrity_check(1)")]
    if found != ["ok"]:
        raise FailedPrecondition(f"{what} is damaged ({found[0]}); nothing was changed")


def _pragma(tx: Tx, name: str) -> int:
    return int(tx.execute(f"PRAGMA {name}").fetchone()[0])


def sync_file(path: Path) -> int:
    """Make the file durable; returns its size in bytes."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def explained(what: str, draft: Path) -> Iterator[None]:
    """What the file system or SQLite raises becomes one sentence, and nothing is left half-done."""
    _discard(draft)
    try:
        yield
    except IrisFedError:
        raise
    except UnicodeDecodeError as error:
        raise FailedPrecondition(f"{what}: it holds text that is none; nothing was changed") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            raise ResourceExhausted(f"{what}: the disk is full; nothing was changed") from error
        raise FailedPrecondition(f"{what}: {error}") from error
    except OSError as error:
        raise ResourceExhausted(f"{what}: {error.strerror or error}; nothing was changed") from error
    finally:
        _discard(draft)


def _discard(draft: Path) -> None:
    for suffix in ("", "-journal", "-wal", "-shm"):
        draft.with_name(draft.name + suffix).unlink(missing_ok=True)


def _refuse_paths(source: Path, target: Path, force: bool) -> None:
    if not source.is_file():
        raise NotFound(f"there is no database {source}; a controller makes it when it first starts")
    if not target.parent.is_dir():
        raise NotFound(f"there is no directory {target.parent}")
    if target.parent.samefile(source.parent):
        raise InvalidArgument(f"{target} cannot be a backup: it would lie among the controller's own files")
    if target.exists() and (not target.is_file() or target.samefile(source)):
        raise InvalidArgument(f"{target} cannot be a backup: it is {'in use' if target.is_file() else 'no file'}")
    if target.exists() and not force:
        raise AlreadyExists(f"{target} exists; --force replaces it")


def _complete(copy: Tx, draft: Path, folder: Path, target: Path, now_ms: int) -> Backup:
    """Make a bare copy a backup: marked, with its bundles, in one file, and found whole."""
    copy.execute("PRAGMA journal_mode=DELETE")
    copy.execute("BEGIN")
    mark_taken(copy, now_ms)
    copy.execute(_BUNDLES_TABLE)
    missing = []
    needed = copy.execute(
        "SELECT DISTINCT bundle_id AS id FROM jobs WHERE finished_ms IS NULL AND bundle_id <> '' ORDER BY bundle_id"
    ).fetchall()
    for row in needed:
        try:
            _take_bundle(copy, folder, row["id"])
        except FileNotFoundError:
            missing.append(row["id"])
    copy.execute("COMMIT")
    refuse_damaged(copy, draft, "the database")
    unfinished = copy.execute("SELECT count(*) AS n FROM jobs WHERE finished_ms IS NULL").fetchone()["n"]
    return Backup(target, read_meta(copy).name, now_ms, 0, unfinished, len(needed) - len(missing), tuple(missing))


def _take_bundle(copy: Tx, folder: Path, bundle_id: str) -> None:
    with (folder / bundle_id).open("rb") as file:
        for part, data in enumerate(iter(lambda: file.read(PART_BYTES), b"")):
            copy.execute("INSERT INTO backup_bundles (bundle_id, part, data) VALUES (?, ?, ?)", (bundle_id, part, data))
