"""`db check` finds each rule that is broken, and nothing in a sound database."""

import sqlite3
from pathlib import Path

import pytest

from iris_fed.decide import lifecycle
from iris_fed.decide.newjob import child_of
from iris_fed.errors import ConfigError
from iris_fed.model.federation import ReceivedHandle
from iris_fed.model.observed import AttemptEnd, Ended, EndKind
from iris_fed.model.states import JobState, ReceivedState
from iris_fed.store.changelog import newest_cursor
from iris_fed.store.changelog_prune import remove_up_to
from iris_fed.store.check import INVARIANTS, MAX_NAMED, check_database
from iris_fed.store.commit import commit
from iris_fed.store.connection import connect_sqlite
from iris_fed.store.db import Tx
from iris_fed.store.handles import insert_received
from iris_fed.store.invariants_federation import CLOCK_SLACK_MS
from iris_fed.store.jobs import insert_job, load_draft
from iris_fed.store.migrate import load_migrations, migrate
from iris_fed.store.opening import DATABASE_NAME
from iris_fed.store.requesters import Heard, save_heard
from tests.store.samples import NOON, add_local, add_received, add_sent, local_job, start

GONE = "finished_ms = 9, state = 'FAILED'"

X = "(SELECT uid FROM jobs WHERE job_id = '/a/x')"
HANDLE = "INSERT INTO federated_jobs (direction, counterpart, nonce, job_id, state, created_ms, closed_ms, end_state)"

BREAKS = {
    # Jobs, tasks and attempts.
    "a job's id does not fit its place in the tree": (
        "UPDATE jobs SET job_id = '/a/hub.y/eval' WHERE job_id = '/a/hub.x/eval'",
        "/a/hub.y/eval",
    ),
    "a child belongs to another cluster or incarnation than its parent": (
        "UPDATE jobs SET nonce = 'n0' WHERE job_id = '/a/hub.x/eval'",
        "/a/hub.x/eval",
    ),
    "a task belongs to another cluster or incarnation than its job": (
        "UPDATE tasks SET requester = 'moon' WHERE job_uid = (SELECT uid FROM jobs WHERE job_id = '/a/hub.x')",
        "/a/hub.x/0",
    ),
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
    "a job's counts of failures are not those of its tasks": (
        "UPDATE jobs SET failure_count = 1 WHERE job_id = '/a/x'",
        "/a/x",
    ),
    "a task's end does not fit its state": (
        f"UPDATE tasks SET finished_ms = 9 WHERE job_uid = {X} AND idx = 1",
        "/a/x/1",
    ),
    "a task's counts of failures are not those of its attempts": (
        f"UPDATE tasks SET preemption_count = 1 WHERE job_uid = {X} AND idx = 0",
        "/a/x/0",
    ),
    "a task's attempts are not numbered from 0 to its current one": (
        f"UPDATE attempts SET number = 3 WHERE job_uid = {X}",
        "/a/x/0",
    ),
    "an attempt's end does not fit its state": (f"UPDATE attempts SET finished_ms = 9 WHERE job_uid = {X}", "/a/x/0"),
    "a finished task has an unfinished attempt": (
        f"UPDATE tasks SET state = 'FAILED' WHERE job_uid = {X} AND idx = 0",
        "/a/x/0",
    ),
    "a task has two unfinished attempts": (
        "INSERT INTO attempts (job_uid, task_index, number, attempt_uid, state, created_ms)"
        " SELECT uid, 0, 7, 'twin', 'RUNNING', 1 FROM jobs WHERE job_id = '/a/x'",
        "/a/x/0",
    ),
    # Handles.
    "a job handed off has no handle": ("DELETE FROM federated_jobs WHERE nonce = 's1'", "/a/y"),
    "an unfinished job handed off has a closed handle": (
        "UPDATE federated_jobs SET state = 'CLOSED', closed_ms = 9 WHERE nonce = 's1'",
        "/a/y",
    ),
    "an open handle has a finished job, or none": (f"UPDATE jobs SET {GONE} WHERE job_id = '/a/y'", "/a/y"),
    "a handle does not name its job as the peer would know it": (
        "UPDATE federated_jobs SET remote_job_id = '/a/y' WHERE nonce = 's1'",
        "/a/y",
    ),
    "a received job has no handle": ("UPDATE federated_jobs SET job_id = '/a/hub.q' WHERE nonce = 'n1'", "/a/hub.x"),
    "an admitted handle has no job": (
        f"{HANDLE} VALUES ('RECEIVED', 'hub', 'n9', '/a/hub.gone', 'ADMITTED', 1, NULL, NULL)",
        "/a/hub.gone",
    ),
    "a handle that is fenced, superseded or pruned has a job": (
        "UPDATE federated_jobs SET state = 'FENCED' WHERE nonce = 'n1'",
        "/a/hub.x",
    ),
    "a received handle does not say how its job ended, or says it too early": (
        "UPDATE federated_jobs SET end_state = NULL WHERE state = 'PRUNED'",
        "/a/hub.pruned",
    ),
    # The changelog.
    "a cursor was acknowledged, or news removed, beyond the newest row of the changelog": (
        "UPDATE federation_requesters SET acked_seq = 1000",
        "hub",
    ),
    "a received job is missing from the changelog's news": (
        "DELETE FROM federation_changelog WHERE job_id = '/a/hub.x'",
        "/a/hub.x",
    ),
    "a row of the changelog speaks of a handoff that is not known": (
        "DELETE FROM federated_jobs WHERE nonce = 'n-fenced'",
        "/a/hub.fenced",
    ),
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
    received = start(tx, add_received(tx), uid="u3")
    insert_job(tx, child_of(received, local_job("/a/hub.x/eval"), inherits_band=True))
    tx.execute("INSERT INTO cluster_meta VALUES ('name', 'lab')")
    for state in (ReceivedState.FENCED, ReceivedState.SUPERSEDED, ReceivedState.PRUNED):
        insert_received(tx, over(state))
    save_heard(tx, {"hub": Heard(2, 2, 1_000)})
    tx.execute("COMMIT")
    tx.close()
    return where


def over(state: ReceivedState) -> ReceivedHandle:
    """A handle whose job is gone, or never came."""
    name, end = state.lower(), None if state is ReceivedState.FENCED else JobState.FAILED
    return ReceivedHandle(
        nonce=f"n-{name}", requester="hub", job_id=f"/a/hub.{name}", state=state, created_ms=1, closed_ms=5,
        end_state=end, end_finished_ms=None if end is None else 4,
    )  # fmt: skip


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


@pytest.mark.parametrize(
    "harmed",
    [
        "UPDATE federated_jobs SET end_state = 'RUNNING' WHERE state = 'SUPERSEDED'",
        "UPDATE federated_jobs SET end_state = 'KILLED' WHERE state = 'FENCED'",
        "UPDATE federated_jobs SET closed_ms = NULL WHERE state = 'FENCED'",
        "UPDATE federated_jobs SET closed_ms = 9 WHERE state = 'ADMITTED'",
        "UPDATE federated_jobs SET end_finished_ms = 9 WHERE state = 'FENCED'",
    ],
)
def test_a_received_handle_has_an_end_when_it_is_over_and_only_then(path: Path, harmed: str) -> None:
    harm(path, harmed)
    (problem,) = check_database(path)
    assert problem.startswith("a received handle does not say how its job ended, or says it too early: /a/hub.")


def test_news_may_not_be_gone_beyond_the_newest_row(path: Path) -> None:
    harm(path, "UPDATE federation_requesters SET pruned_seq = 1000")
    assert "a cursor was acknowledged, or news removed, beyond the newest row of the changelog: hub" in check_database(
        path
    )


NEWS = "a received job is missing from the changelog's news: /a/hub.x, /a/hub.x/eval"
REMOVED = "DELETE FROM federation_changelog WHERE nonce = 'n1'"


def test_a_changelog_that_the_pruner_has_shortened_is_no_problem(path: Path) -> None:
    harm(path)
    tx = connect_sqlite(path, NOON, set())
    newest = newest_cursor(tx, "db").seq
    save_heard(tx, {"hub": Heard(newest, newest, 1_000)})
    assert remove_up_to(tx, "hub", newest, (), 100) == newest - 1
    tx.close()
    assert check_database(path) == []


def test_news_that_is_gone_though_nothing_was_pruned_is_found(path: Path) -> None:
    harm(path, REMOVED)
    assert check_database(path) == [NEWS]


def test_news_that_is_gone_though_older_rows_stand_is_found(path: Path) -> None:
    harm(path, REMOVED, "UPDATE federation_requesters SET pruned_seq = 1")
    assert check_database(path) == []
    for late_ms, found in ((CLOCK_SLACK_MS, []), (CLOCK_SLACK_MS + 1, [NEWS])):
        started_ms = NOON.now_ms() + late_ms
        harm(path, f"UPDATE jobs SET started_ms = {started_ms} WHERE job_id LIKE '/a/hub.x%'", REMOVED)
        assert check_database(path) == found


def test_a_row_of_a_handle_that_went_after_its_time_is_no_problem(path: Path) -> None:
    harm(
        path,
        "UPDATE federation_requesters SET pruned_seq = (SELECT seq FROM federation_changelog WHERE nonce = 'n-fenced')",
        "DELETE FROM federated_jobs WHERE nonce = 'n-fenced'",
    )
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
        "migration 0001_core is not the one that this database was made with: install the version that matches it",
        "migration 0003_federation_changelog is not applied: the controller applies it when it starts",
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
