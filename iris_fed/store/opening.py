"""From a path to a database that is ready: opened, migrated, named, its triggers as written."""

import sqlite3
from pathlib import Path

from iris_fed.clock import Clock
from iris_fed.errors import ConfigError
from iris_fed.store.db import Database, Tx
from iris_fed.store.meta import ClusterMeta, ensure_meta
from iris_fed.store.migrate import load_migrations, migrate
from iris_fed.store.schema import trigger_problems

DATABASE_NAME = "controller.db"


async def open_database(
    path: Path, cluster: str, fresh_id: str, clock: Clock, *, inline: bool = False
) -> tuple[Database, ClusterMeta]:
    """`fresh_id` becomes the database id of a new database. Raises ConfigError."""
    db = await Database.open(path, clock, inline=inline)
    try:
        migrations = load_migrations()
        await db.alone(lambda tx: migrate(tx, migrations, clock.now_ms()))
        meta = await db.write(lambda tx: ensure_meta(tx, cluster, fresh_id))
        await db.read(_refuse_lost_triggers)
    except BaseException as error:
        await db.close()
        if isinstance(error, sqlite3.Error):
            raise ConfigError(f"cannot use the database {path}: {error}") from error
        raise
    return db, meta


def _refuse_lost_triggers(tx: Tx) -> None:
    problems = trigger_problems(tx, load_migrations())
    if problems:
        raise ConfigError(f"the database's changelog triggers are not as written: {'; '.join(problems)}")
