"""`db check` finds each rule that is broken, and nothing in a sound database."""

import sqlite3
from pathlib import Path

import pytest

from iris_fed.decide import lifecycle
from iris_fed.errors import ConfigError
from iris_fed.model.observed import AttemptEnd, Ended, EndKind
from iris_fed.store.check import INVARIANTS, MAX_NAMED, check_database
from iris_fed.store.commit import commit
from iris_fed.store.connection import connect_sqlite
from iris_fed.store.db import Tx
from iris_fed.store.jobs import load_draft
from iris_fed.store.migrate import load_migrations, migrate
from iris_fed.store.opening import DATABASE_NAME
from tests.store.samples import NOON, add_local, add_received, add_sent, start

GONE = "finished_ms = 9, state = 'FAILED'"

BREAKS = {
    "a finished job has an unfinished task": (
        f"UPDATE jobs SET {GONE}, queued_tasks = 0 WHERE job_id = '/a/x'",
        "/a/x",
    ),
    "an unfinished job here has only finished tasks": (
        "UPDATE jobs SET state = 'RUNNING', finished_ms = NULL WHERE job_id = '/a/done'",
        "/a/done",
    ),
    "a job here does not have the tasks it should": ("UPDATE jobs SET task_count = 7 WHERE job_id = '/a/x'", "/a/x"),
    "a job's count of waiting tasks is wrong": ("UPDATE jobs SET queued_tasks = 5 WHERE job_id = '/a/x'", "/a/x"),
    "a finished task has an unfinished attempt": (
        "UPDATE tasks SET state = 'FAILED' WHERE job_uid = (SELECT uid FROM jobs WHERE job_id = '/a/x') AND idx = 0",
        "/a/x/0",
    ),
    "a task has two unfinished attempts": (
        "INSERT INTO attempts (job_uid, task_index, number, attempt_uid, state, created_ms)"
        " SELECT uid, 0, 7, 'twin', 'RUNNING', 1 FROM jobs WHERE job_id = '/a/x'",
        "/a/x/0",
    ),
    "a job handed off has no handle": ("DELETE FROM federated_jobs WHERE nonce = 's1'", "/a/y"),
    "an unfinished job handed off has a closed handle": (
        "UPDATE federated_jobs SET state = 'CLOSED', closed_ms = 9 WHERE nonce = 's1'",
        "/a/y",
    ),
    "an open handle has a finished job, or none": (f"UPDATE jobs SET {GONE} WHERE job_id = '/a/y'", "/a/y"),
    "a received job has no handle": ("UPDATE federated_jobs SET state = 'SUPERSEDED' WHERE nonce = 'n1'", "/a/hub.x"),
    "an admitted handle has no job": (
        "INSERT INTO federated_jobs (direction, counterpart, nonce, job_id, state, created_ms)"
        " VALUES ('RECEIVED', 'hub', 'n9', '/a/hub.gone', 'ADMITTED', 1)",
        "/a/hub.gone",
    ),
    "a received job is missing from the changelog's news": ("DELETE FROM federation_changelog", "/a/hub.x"),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A sound database with a job of every kind: running, ended, handed off, received."""
    where = tmp_path / DATABASE_NAME
    tx = connect_sqlite(where, NOON, set())
    migrate(tx, load_migrations(), 1)
    tx.execute("BEGIN")
    start(tx, add_local(tx, replicas=2))
    end(tx, "/a/done")
    add_sent(tx)
    start(tx, add_received(tx), uid="u3")
    tx.execute("COMMIT")
    tx.close()
    return where


def end(tx: Tx, job_id: str) -> None:
    job = start(tx, add_local(tx, job_id), uid="u-done")
    draft = load_draft(tx, job, {0})
    lifecycle.on_ended(draft, (0, 0), Ended("u-done", AttemptEnd(EndKind.EXITED, 0), 2_000, 3_000), 3_000, 0.0)
    commit(tx, draft)


def harm(path: Path, *statements: str) -> None:
    tx = connect_sqlite(path, NOON, set())
    tx.execute("PRAGMA foreign_keys=OFF")
    for statement in statements:
        tx.execute(statement)
    tx.close()


def test_a_sound_database_has_no_problem(path: Path) -> None:
    assert check_database(path) == []


def test_a_fresh_database_has_no_problem(tmp_path: Path) -> None:
    tx = connect_sqlite(tmp_path / DATABASE_NAME, NOON, set())
    migrate(tx, load_migrations(), 1)
    tx.close()
    assert check_database(tmp_path / DATABASE_NAME) == []


def test_every_rule_is_broken_once_below() -> None:
    assert BREAKS.keys() == INVARIANTS.keys()


@pytest.mark.parametrize("rule", BREAKS)
def test_a_broken_rule_is_found_and_whatever_breaks_it_named(path: Path, rule: str) -> None:
    statement, name = BREAKS[rule]
    harm(path, statement)
    assert f"{rule}: {name}" in check_database(path)


def test_only_the_first_few_are_named(path: Path) -> None:
    tx = connect_sqlite(path, NOON, set())
    tx.execute("BEGIN")
    for number in range(MAX_NAMED + 3):
        add_local(tx, f"/a/many-{number}")
    tx.execute("COMMIT")
    tx.close()
    harm(path, "UPDATE jobs SET task_count = 7 WHERE job_id LIKE '/a/many-%'")
    (problem,) = check_database(path)
    assert problem.count("/a/many-") == MAX_NAMED


def test_a_pruned_changelog_is_no_problem(path: Path) -> None:
    harm(path, "DELETE FROM federation_changelog WHERE seq < (SELECT max(seq) FROM federation_changelog)")
    assert check_database(path) == []


def test_rows_that_point_nowhere_are_found(path: Path) -> None:
    harm(path, "DELETE FROM jobs WHERE job_id = '/a/x'")
    problems = check_database(path)
    assert "tasks: a row refers to a jobs that is not there" in problems


def test_a_migration_that_is_missing_or_edited_is_found(path: Path) -> None:
    harm(
        path,
        "UPDATE schema_migrations SET checksum = 'x' WHERE number = 1",
        "DELETE FROM schema_migrations WHERE number = 3",
    )
    assert check_database(path) == [
        "migration 0001_core is not applied, or differs",
        "migration 0003_federation_changelog is not applied, or differs",
    ]


def test_a_database_of_something_else_is_recognised(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE recipes (name)")
    other.close()
    assert check_database(tmp_path / "other.db") == ["this is no database of a controller: it has no schema_migrations"]


def test_a_torn_file_is_a_problem_and_no_crash(path: Path) -> None:
    harm(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(path.read_bytes())
    pages = len(content) // 4_096
    for page in range(pages // 2, pages):
        content[page * 4_096 : page * 4_096 + 64] = b"\xff" * 64
    path.write_bytes(content)
    assert "malformed" in check_database(path)[0]


def test_what_is_no_database_at_all_is_a_problem_or_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("Dear Sir or Madam, " * 100)
    (problem,) = check_database(tmp_path / "letter")
    assert "file is not a database" in problem
    with pytest.raises(ConfigError, match="cannot open the database"):
        check_database(tmp_path)


def test_checking_changes_nothing(path: Path) -> None:
    harm(path, "PRAGMA wal_checkpoint(TRUNCATE)", "UPDATE jobs SET task_count = 7 WHERE job_id = '/a/x'")
    assert check_database(path) == check_database(path)
