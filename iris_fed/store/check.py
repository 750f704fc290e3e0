"""`iris-fed db check`: whether a database is whole and its parts agree with each other."""

import contextlib
import sqlite3
from pathlib import Path

from iris_fed.clock import SystemClock
from iris_fed.errors import ConfigError
from iris_fed.store.connection import connect_sqlite
from iris_fed.store.db import Tx
from iris_fed.store.migrate import load_migrations
from iris_fed.store.opening import DATABASE_NAME
from iris_fed.store.schema import trigger_problems

__all__ = ["DATABASE_NAME", "check_database"]

_TERMINAL_TASKS = (
    "('SUCCEEDED', 'FAILED', 'KILLED', 'WORKER_FAILED', 'UNSCHEDULABLE', 'PREEMPTED', 'COSCHED_FAILED', 'MISSING')"
)

INVARIANTS = {
    "a finished job has an unfinished task": (
        "SELECT j.job_id AS name FROM jobs j JOIN tasks t ON t.job_uid = j.uid"
        f" WHERE j.cluster = '' AND j.finished_ms IS NOT NULL AND t.state NOT IN {_TERMINAL_TASKS}"
    ),
    "an unfinished job here has only finished tasks": (
        "SELECT job_id AS name FROM jobs j WHERE cluster = '' AND finished_ms IS NULL AND NOT EXISTS"
        f" (SELECT 1 FROM tasks t WHERE t.job_uid = j.uid AND t.state NOT IN {_TERMINAL_TASKS})"
    ),
    "a job here does not have the tasks it should": (
        "SELECT job_id AS name FROM jobs j WHERE cluster = ''"
        " AND task_count <> (SELECT count(*) FROM tasks t WHERE t.job_uid = j.uid)"
    ),
    "a job's count of waiting tasks is wrong": (
        "SELECT job_id AS name FROM jobs j WHERE queued_tasks <> CASE WHEN cluster <> '' OR finished_ms IS NOT NULL"
        " OR stop_state IS NOT NULL THEN 0 ELSE"
        " (SELECT count(*) FROM tasks t WHERE t.job_uid = j.uid AND t.state = 'PENDING') END"
    ),
    "a finished task has an unfinished attempt": (
        "SELECT j.job_id || '/' || t.idx AS name FROM tasks t JOIN jobs j ON j.uid = t.job_uid"
        " JOIN attempts a ON a.job_uid = t.job_uid AND a.task_index = t.idx"
        f" WHERE j.cluster = '' AND t.state IN {_TERMINAL_TASKS} AND a.finished_ms IS NULL"
    ),
    "a task has two unfinished attempts": (
        "SELECT j.job_id || '/' || a.task_index AS name FROM attempts a JOIN jobs j ON j.uid = a.job_uid"
        " WHERE a.mirrored = 0 AND a.finished_ms IS NULL GROUP BY a.job_uid, a.task_index HAVING count(*) > 1"
    ),
    "a job handed off has no handle": (
        "SELECT job_id AS name FROM jobs j WHERE cluster <> '' AND NOT EXISTS (SELECT 1 FROM federated_jobs f"
        " WHERE f.direction = 'SENT' AND f.counterpart = j.cluster AND f.nonce = j.nonce)"
    ),
    "an unfinished job handed off has a closed handle": (
        "SELECT j.job_id AS name FROM jobs j JOIN federated_jobs f ON f.direction = 'SENT'"
        " AND f.counterpart = j.cluster AND f.nonce = j.nonce WHERE j.finished_ms IS NULL AND f.state = 'CLOSED'"
    ),
    "an open handle has a finished job, or none": (
        "SELECT f.job_id AS name FROM federated_jobs f LEFT JOIN jobs j ON j.job_id = f.job_id AND j.nonce = f.nonce"
        " WHERE f.direction = 'SENT' AND f.state <> 'CLOSED' AND (j.uid IS NULL OR j.finished_ms IS NOT NULL)"
    ),
    "a received job has no handle": (
        "SELECT job_id AS name FROM jobs j WHERE requester <> '' AND parent_uid IS NULL AND NOT EXISTS"
        " (SELECT 1 FROM federated_jobs f WHERE f.direction = 'RECEIVED' AND f.counterpart = j.requester"
        " AND f.nonce = j.nonce AND f.state = 'ADMITTED')"
    ),
    "an admitted handle has no job": (
        "SELECT f.job_id AS name FROM federated_jobs f WHERE f.direction = 'RECEIVED' AND f.state = 'ADMITTED'"
        " AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.job_id = f.job_id AND j.nonce = f.nonce)"
    ),
    "a received job is missing from the changelog's news": (
        "SELECT job_id AS name FROM jobs j WHERE requester <> '' AND NOT EXISTS (SELECT 1 FROM federation_changelog c"
        " WHERE c.requester = j.requester AND c.job_id = j.job_id AND c.nonce = j.nonce)"
        " AND NOT EXISTS (SELECT 1 FROM federation_changelog c WHERE c.seq > 1 AND"
        " c.seq = (SELECT min(seq) FROM federation_changelog))"
    ),
}
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
    problems += [
        f"{row[0]}: a row refers to a {row[2]} that is not there" for row in tx.execute("PRAGMA foreign_key_check")
    ]
    migrations = load_migrations()
    try:
        applied = {row["number"]: row["checksum"] for row in tx.execute("SELECT * FROM schema_migrations")}
    except sqlite3.OperationalError:
        return [*problems, "this is no database of a controller: it has no schema_migrations"]
    problems += [
        f"migration {m.number:04d}_{m.name} is not applied, or differs"
        for m in migrations
        if applied.get(m.number) != m.checksum
    ]
    if problems:
        return problems
    problems += [f"trigger {words}" for words in trigger_problems(tx, migrations)]
    for rule, query in INVARIANTS.items():
        names = [row["name"] for row in tx.execute(f"SELECT DISTINCT name FROM ({query}) LIMIT {MAX_NAMED}")]
        if names:
            problems.append(f"{rule}: {', '.join(names)}")
    return problems
