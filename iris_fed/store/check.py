"""`iris-fed db check`: whether a database is whole and its parts agree with each other."""

import contextlib
import sqlite3
from pathlib import Path

from iris_fed.clock import SystemClock
from iris_fed.errors import ConfigError
from iris_fed.store.connection import connect_sqlite
from iris_fed.store.db import Tx
from iris_fed.store.invariants import JOB_INVARIANTS
from iris_fed.store.invariants_federation import FEDERATION_INVARIANTS
from iris_fed.store.migrate import Migration, load_migrations
from iris_fed.store.opening import DATABASE_NAME
from iris_fed.store.schema import trigger_problems

__all__ = ["DATABASE_NAME", "check_database"]

INVARIANTS = JOB_INVARIANTS | FEDERATION_INVARIANTS
"""Each query names what breaks its rule; it finds nothing in a sound database."""

MAX_NAMED = 5


def check_database(path: Path) -> list[str]:
    """One sentence a problem; none = sound. Reads only; the controller may run meanwhile.

    Raises ConfigError when the file cannot be opened at all."""
    try:
        with contextlib.closing(_connect(path)) as tx:
            return _problems(tx)
    except sqlite3.DatabaseError as error:
        return [f"{path} is no sound SQLite database: {error}"]


def _connect(path: Path) -> Tx:
    try:
        return connect_sqlite(path, SystemClock(), set(), query_only=True)
    except sqlite3.OperationalError as error:
        raise ConfigError(f"cannot open the database {path}: {error}") from error


def _problems(tx: Tx) -> list[str]:
    problems = [row[0] for row in tx.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
    if problems:
        problems.append("the file is damaged: stop the controller and restore a backup with `iris-fed db restore`")
    problems += [
        f"{row[0]}: a row refers to a {row[2]} that is not there" for row in tx.execute("PRAGMA foreign_key_check")
    ]
    migrations = load_migrations()
    try:
        applied = {row["number"]: row["checksum"] for row in tx.execute("SELECT * FROM schema_migrations")}
    except sqlite3.OperationalError:
        return [*problems, "this is no database of a controller: it has no schema_migrations"]
    problems += [words for migration in migrations if (words := _migration_problem(migration, applied))]
    if problems:
        return problems
    problems += [f"trigger {words}" for words in trigger_problems(tx, migrations)]
    for rule, query in INVARIANTS.items():
        names = [row["name"] for row in tx.execute(f"SELECT DISTINCT name FROM ({query}) LIMIT {MAX_NAMED}")]
        if names:
            problems.append(f"{rule}: {', '.join(names)}")
    return problems


def _migration_problem(migration: Migration, applied: dict[int, str]) -> str:
    name = f"migration {migration.number:04d}_{migration.name}"
    if migration.number not in applied:
        return f"{name} is not applied: the controller applies it when it starts"
    if applied[migration.number] != migration.checksum:
        return f"{name} is not the one that this database was made with: install the version that matches it"
    return ""
