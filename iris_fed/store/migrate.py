"""Brings a database to this code's schema: numbered files, one transaction each, never edited.

A database newer than the code, or one whose applied migrations differ from the files, is refused.
"""

import hashlib
import sqlite3
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from iris_fed.errors import ConfigError
from iris_fed.store.db import Tx


@dataclass(frozen=True, slots=True)
class Migration:
    """One file: `NNNN_name.sql`."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def load_migrations() -> list[Migration]:
    """All migrations that this code knows, in order."""
    packaged = files("iris_fed") / "_migrations"
    # An editable install keeps the files where they are written.
    folder = packaged if packaged.is_dir() else Path(__file__).resolve().parents[2] / "migrations"
    found = []
    for entry in folder.iterdir():
        if entry.name.endswith(".sql"):
            found.append(Migration(int(entry.name[:4]), entry.name[5:-4], entry.read_text(encoding="utf-8")))
    return sorted(found, key=lambda migration: migration.number)


def version_of(tx: Tx, migrations: list[Migration]) -> int:
    """Number of the last migration that the database has; 0 = it is new. Raises ConfigError as `migrate` does."""
    if not tx.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_migrations'").fetchone():
        return 0
    return max(_checked(tx, migrations), default=0)


def migrate(tx: Tx, migrations: list[Migration], now_ms: int) -> list[str]:
    """Apply what is missing; returns the names applied. Raises ConfigError where that is not possible."""
    tx.execute(
        "CREATE TABLE IF NOT EXISTS schema_migrations ("
        " number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_ms INTEGER NOT NULL) STRICT"
    )
    applied = _checked(tx, migrations)
    done = []
    for migration in migrations:
        if migration.number not in applied:
            _apply(tx, migration, now_ms)
            done.append(f"{migration.number:04d}_{migration.name}")
    return done


def _checked(tx: Tx, migrations: list[Migration]) -> set[int]:
    known = {migration.number: migration for migration in migrations}
    applied = {row["number"]: row for row in tx.execute("SELECT * FROM schema_migrations ORDER BY number")}
    for number, row in applied.items():
        if number not in known:
            raise ConfigError(
                f"the database was written by a newer version (migration {number:04d}_{row['name']}): "
                "upgrade iris-fed, or restore a backup made by this version"
            )
        if row["checksum"] != known[number].checksum:
            raise ConfigError(
                f"migration {number:04d}_{row['name']} differs from what this database was made with: "
                "install the version that matches the database"
            )
    return set(applied)


def split_statements(sql: str) -> list[str]:
    """One string a statement, triggers kept whole. (`executescript` would commit the transaction.)"""
    statements, buffer = [], ""
    for line in sql.splitlines(keepends=True):
        buffer += line
        if line.rstrip().endswith(";") and sqlite3.complete_statement(buffer):
            statements.append(buffer.strip())
            buffer = ""
    if any(line.strip() and not line.strip().startswith("--") for line in buffer.splitlines()):
        raise ConfigError("a migration ends in the middle of a statement")
    return statements


def _apply(tx: Tx, migration: Migration, now_ms: int) -> None:
    tx.execute("BEGIN IMMEDIATE")
    try:
        for statement in split_statements(migration.sql):
            tx.execute(statement)
        tx.execute(
            "INSERT INTO schema_migrations (number, name, checksum, applied_ms) VALUES (?, ?, ?, ?)",
            (migration.number, migration.name, migration.checksum, now_ms),
        )
        tx.execute("COMMIT")
    except BaseException:
        if tx.in_transaction:
            tx.execute("ROLLBACK")
        raise
