"""From a path to a database that is ready: opened, migrated, named, its triggers as written."""

import os
import sqlite3
from pathlib import Path

from iris_fed.clock import Clock
from iris_fed.errors import ConfigError
from iris_fed.store.db import Database, Tx
from iris_fed.store.meta import ClusterMeta, ensure_meta
from iris_fed.store.migrate import Migration, load_migrations, migrate, version_of
from iris_fed.store.schema import trigger_problems

DATABASE_NAME = "controller.db"
KEPT_BEFORE = ".before-upgrade-"
"""Followed by the number of the last migration that the copy has."""


async def open_database(
    path: Path, cluster: str, fresh_id: str, clock: Clock, *, inline: bool = False
) -> tuple[Database, ClusterMeta]:
    """`fresh_id` becomes the database id of a new database. One that older code wrote is kept aside before it is
    changed. Raises ConfigError."""
    db = await Database.open(path, clock, inline=inline)
    try:
        migrations = load_migrations()
        await db.alone(lambda tx: _bring_up(tx, path, migrations, clock.now_ms()))
        meta = await db.write(lambda tx: ensure_meta(tx, cluster, fresh_id))
        await db.read(_refuse_lost_triggers)
    except BaseException as error:
        await db.close()
        if isinstance(error, sqlite3.Error):
            raise ConfigError(f"cannot use the database {path}: {error}") from error
        raise
    return db, meta


def _bring_up(tx: Tx, path: Path, migrations: list[Migration], now_ms: int) -> None:
    version = version_of(tx, migrations)
    if version and version < migrations[-1].number:
        _keep_aside(tx, path, version)
    migrate(tx, migrations, now_ms)


def _keep_aside(tx: Tx, path: Path, version: int) -> None:
    """What the code before can go back to. One such copy is kept, of the latest upgrade."""
    kept = path.with_name(f"{path.name}{KEPT_BEFORE}{version:04d}")
    draft = kept.with_name(f".{kept.name}.draft")
    try:
        draft.unlink(missing_ok=True)
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        tx.execute("VACUUM INTO ?", (str(draft),))
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, kept)
    except (OSError, sqlite3.Error) as error:
        draft.unlink(missing_ok=True)
        raise ConfigError(f"the database needs an upgrade, but no copy of it can be kept as {kept}: {error}") from error
    for other in path.parent.glob(f"{path.name}{KEPT_BEFORE}*"):
        if other != kept:
            other.unlink()


def _refuse_lost_triggers(tx: Tx) -> None:
    problems = trigger_problems(tx, load_migrations())
    if problems:
        raise ConfigError(f"the database's changelog triggers are not as written: {'; '.join(problems)}")
