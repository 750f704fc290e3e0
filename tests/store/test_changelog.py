"""Every change of a received job leaves its row in the changelog, whatever SQL made it; nothing else does."""

import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iris_fed.model.federation import ReceivedHandle
from iris_fed.model.jobs import Job
from iris_fed.model.states import ReceivedState
from iris_fed.store.changelog import Cursor, changes_after, cursor_at, is_current, newest_cursor, parse_cursor, touch
from iris_fed.store.connection import connect_sqlite
from iris_fed.store.db import Database, Tx
from iris_fed.store.handles import insert_received, received_by_nonce, supersede_received
from iris_fed.store.jobs import delete_job, job_by_id
from iris_fed.store.migrate import load_migrations, migrate
from iris_fed.store.opening import DATABASE_NAME
from tests.store.samples import NOON, add_local, add_received, add_sent, start

Row = tuple[str, str, str, int | None, int]
"""Requester, nonce, job, task, tombstone."""

JOB: Row = ("hub", "n1", "/a/hub.x", None, 0)
TASK: Row = ("hub", "n1", "/a/hub.x", 0, 0)
MINE = "(SELECT uid FROM jobs WHERE job_id = '/a/hub.x')"
OURS = "(SELECT uid FROM jobs WHERE job_id = '/a/x')"

JOB_CHANGES = {
    "state": "BUILDING",
    "error": "boom",
    "exit_code": 3,
    "pending_reason": "waiting",
    "started_ms": 7,
    "failure_count": 9,
    "preemption_count": 9,
    "task_count": 9,
    "backend_id": "other",
}
TASK_CHANGES = {
    "state": "BUILDING",
    "current_attempt": 5,
    "exit_code": 3,
    "error": "boom",
    "pending_reason": "waiting",
    "started_ms": 7,
    "finished_ms": 8,
    "backend_id": "other",
}
ATTEMPT_CHANGES = {
    "state": "BUILDING",
    "node": "n9",
    "address": "10.0.0.9",
    "ports": '{"web":1}',
    "exit_code": 3,
    "error": "boom",
    "terminal_reason": "LOST",
    "is_worker_failure": 1,
    "started_ms": 7,
    "finished_ms": 8,
    "usage": '{"memory_bytes":1}',
}
CHANGES = [
    *(("jobs", "uid", column, value, JOB) for column, value in JOB_CHANGES.items()),
    *(("tasks", "idx = 0 AND job_uid", column, value, TASK) for column, value in TASK_CHANGES.items()),
    *(("attempts", "job_uid", column, value, TASK) for column, value in ATTEMPT_CHANGES.items()),
]


@pytest.fixture
def notes() -> set[str]:
    """Requesters for whom the changelog grew."""
    return set()


@pytest.fixture
def tx(tmp_path: Path, notes: set[str]) -> Iterator[Tx]:
    """A database with a running received job of two tasks, one of ours and one that we handed off."""
    connection = connect_sqlite(tmp_path / DATABASE_NAME, NOON, notes)
    migrate(connection, load_migrations(), 1)
    connection.execute("BEGIN")
    start(connection, add_received(connection, replicas=2))
    start(connection, add_local(connection), uid="u2")
    add_sent(connection)
    connection.execute("COMMIT")
    notes.clear()
    yield connection
    connection.close()


def newest(tx: Tx) -> int:
    return newest_cursor(tx, "db").seq


def rows_after(tx: Tx, seq: int) -> list[Row]:
    found = tx.execute(
        "SELECT requester, nonce, job_id, task_index, tombstone FROM federation_changelog WHERE seq > ? ORDER BY seq",
        (seq,),
    )
    return [tuple(row) for row in found]


def rows_of(tx: Tx, sql: str, *values: object) -> list[Row]:
    """What the changelog gains by a statement."""
    before = newest(tx)
    tx.execute(sql, values)
    return rows_after(tx, before)


def job_of(tx: Tx, job_id: str) -> Job:
    job = job_by_id(tx, job_id)
    assert job is not None
    return job


# --- what is told ---


@pytest.mark.parametrize(("table", "key", "column", "value", "row"), CHANGES)
def test_a_change_that_a_parent_should_see_writes_one_row_and_a_change_of_nothing_none(
    tx: Tx, notes: set[str], table: str, key: str, column: str, value: object, row: Row
) -> None:
    assert rows_of(tx, f"UPDATE {table} SET {column} = {column} WHERE {key} = {MINE}") == []
    assert not notes
    assert rows_of(tx, f"UPDATE {table} SET {column} = ? WHERE {key} = {MINE}", value) == [row]
    assert notes == {"hub"}
    assert rows_of(tx, f"UPDATE {table} SET {column} = ? WHERE {key} = {MINE}", value) == []


@pytest.mark.parametrize(("table", "key", "column", "value", "row"), CHANGES)
def test_what_changes_on_our_own_jobs_is_told_to_nobody(
    tx: Tx, notes: set[str], table: str, key: str, column: str, value: object, row: Row
) -> None:
    before = newest(tx)
    assert tx.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = {OURS}", (value,)).rowcount == 1
    assert newest(tx) == before
    assert not notes


def test_an_end_is_told(tx: Tx) -> None:
    assert rows_of(tx, f"UPDATE jobs SET state = 'FAILED', finished_ms = 9 WHERE uid = {MINE}") == [JOB]
    assert rows_of(tx, f"UPDATE jobs SET finished_ms = 10 WHERE uid = {MINE}") == [JOB]


@pytest.mark.parametrize("column", ["cancel_requested_ms", "scheduling_deadline_ms", "queued_tasks"])
def test_what_is_our_own_business_is_not_told(tx: Tx, column: str) -> None:
    assert rows_of(tx, f"UPDATE jobs SET {column} = 77 WHERE uid = {MINE}") == []


def test_a_statement_over_all_jobs_tells_of_those_that_changed_and_are_received(tx: Tx) -> None:
    add_received(tx, "/a/moon.x", nonce="m1", requester="moon")
    told = rows_of(tx, "UPDATE jobs SET pending_reason = 'the same for all'")
    assert sorted(told, key=str) == [JOB, ("moon", "m1", "/a/moon.x", None, 0)]


def test_what_a_received_job_begins_with_is_told(tx: Tx) -> None:
    before = newest(tx)
    add_received(tx, "/a/hub.new", replicas=2, nonce="n2")
    assert rows_after(tx, before) == [("hub", "n2", "/a/hub.new", index, 0) for index in (None, 0, 1)]
    before = newest(tx)
    add_local(tx, "/a/new", replicas=2)
    add_sent(tx, "/a/z", nonce="s2")
    assert rows_after(tx, before) == []


def test_a_child_of_a_received_job_is_told_under_the_incarnation_of_its_root(tx: Tx) -> None:
    same = "user, submitting_user, spec, band, state, submitted_ms, task_count, demand, requester, nonce"
    told = rows_of(
        tx,
        f"INSERT INTO jobs (job_id, parent_uid, {same}) SELECT job_id || '/eval', uid, {same}"
        f" FROM jobs WHERE uid = {MINE}",
    )
    assert told == [("hub", "n1", "/a/hub.x/eval", None, 0)]


def test_a_new_attempt_is_told_and_a_mirrored_one_is_not(tx: Tx) -> None:
    columns = "(job_uid, task_index, number, attempt_uid, state, created_ms, mirrored)"
    assert rows_of(tx, f"INSERT INTO attempts {columns} VALUES ({MINE}, 0, 1, 'u9', 'ASSIGNED', 1, 0)") == [TASK]
    assert rows_of(tx, f"INSERT INTO attempts {columns} VALUES ({MINE}, 0, 2, 'r9', 'ASSIGNED', 1, 1)") == []
    assert rows_of(tx, f"UPDATE attempts SET error = 'boom' WHERE job_uid = {MINE} AND number = 2") == []


def test_a_removed_job_leaves_one_tombstone(tx: Tx) -> None:
    before = newest(tx)
    assert delete_job(tx, job_of(tx, "/a/hub.x").uid) == ["u1"]
    assert delete_job(tx, job_of(tx, "/a/x").uid) == ["u2"]
    assert rows_after(tx, before) == [("hub", "n1", "/a/hub.x", None, 1)]
    assert tx.execute("SELECT count(*) FROM attempts").fetchone()[0] == 0


def test_a_row_that_is_replaced_leaves_a_tombstone_too(tx: Tx) -> None:
    told = rows_of(tx, f"INSERT OR REPLACE INTO jobs SELECT * FROM jobs WHERE uid = {MINE}")
    assert told == [("hub", "n1", "/a/hub.x", None, 1), JOB]


def test_a_fence_is_told_as_a_tombstone_and_an_admission_by_its_job(tx: Tx) -> None:
    before = newest(tx)
    for state in ReceivedState:
        handle = ReceivedHandle(nonce=f"f-{state}", requester="hub", job_id="/a/hub.f", state=state, created_ms=1)
        insert_received(tx, handle)
    assert rows_after(tx, before) == [("hub", "f-FENCED", "/a/hub.f", None, 1)]


def test_a_repeated_truth_is_told(tx: Tx, notes: set[str]) -> None:
    before = newest(tx)
    touch(tx, "hub", "n1", "/a/hub.x")
    assert rows_after(tx, before) == [JOB]
    assert notes == {"hub"}


def test_a_superseded_incarnation_keeps_its_end_and_gives_its_name_to_the_next(tx: Tx) -> None:
    tx.execute(f"UPDATE jobs SET state = 'FAILED', finished_ms = 9, error = 'boom', exit_code = 4 WHERE uid = {MINE}")
    ended = job_of(tx, "/a/hub.x")
    supersede_received(tx, ended, 5_000)
    delete_job(tx, ended.uid)
    before = newest(tx)
    add_received(tx, nonce="n2")
    assert {row[1] for row in rows_after(tx, before)} == {"n2"}
    handle = received_by_nonce(tx, "hub", "n1")
    assert handle is not None
    assert (handle.state, handle.end_state, handle.end_error, handle.end_exit_code) == (
        ReceivedState.SUPERSEDED, "FAILED", "boom", 4,
    )  # fmt: skip


def test_a_rolled_back_change_leaves_no_row_and_a_number_is_never_used_twice(tx: Tx) -> None:
    before = newest(tx)
    tx.execute("BEGIN")
    touch(tx, "hub", "n1", "/a/hub.x")
    tx.execute("ROLLBACK")
    assert newest(tx) == before
    touch(tx, "hub", "n1", "/a/hub.x")
    last = newest(tx)
    tx.execute("DELETE FROM federation_changelog")
    touch(tx, "hub", "n1", "/a/hub.x")
    assert newest(tx) == last + 1


def test_by_hand_a_received_job_cannot_be_changed_in_silence(tx: Tx, tmp_path: Path) -> None:
    hand = sqlite3.connect(tmp_path / DATABASE_NAME)
    with pytest.raises(sqlite3.OperationalError, match="changelog_stamp"):
        hand.execute("UPDATE jobs SET error = 'by hand' WHERE job_id = '/a/hub.x'")
    hand.close()


# --- cursors ---


def test_a_requester_reads_its_own_rows_in_order_and_no_more_than_asked_for(tx: Tx) -> None:
    add_received(tx, "/a/moon.x", nonce="m1", requester="moon")
    touch(tx, "hub", "n1", "/a/hub.x")
    rows = changes_after(tx, "hub", 0, 100)
    assert {(row.nonce, row.job_id) for row in rows} == {("n1", "/a/hub.x")}
    assert [row.seq for row in rows] == sorted(row.seq for row in rows)
    assert changes_after(tx, "hub", rows[1].seq, 2) == rows[2:4]
    assert changes_after(tx, "hub", rows[-1].seq, 100) == []
    assert changes_after(tx, "mars", 0, 100) == []


def test_a_cursor_is_current_while_its_row_stands_with_its_stamp(tx: Tx) -> None:
    cursor = newest_cursor(tx, "db-1")
    assert cursor_at(tx, cursor.seq) == cursor
    assert is_current(tx, cursor, "hub", "db-1")
    assert not is_current(tx, Cursor(cursor.seq, "another"), "hub", "db-1")
    assert not is_current(tx, Cursor(cursor.seq + 1, cursor.stamp), "hub", "db-1")
    tx.execute("DELETE FROM federation_changelog WHERE seq = ?", (cursor.seq,))
    assert not is_current(tx, cursor, "hub", "db-1")


def test_the_place_before_the_first_row_is_current_until_that_row_is_gone(tx: Tx) -> None:
    assert is_current(tx, Cursor(0, "db-1"), "hub", "db-1")
    assert not is_current(tx, Cursor(0, "db-0"), "hub", "db-1")
    tx.execute("DELETE FROM federation_changelog WHERE seq = 1")
    assert not is_current(tx, Cursor(0, "db-1"), "hub", "db-1")


def test_every_row_has_a_stamp_of_its_own(tx: Tx) -> None:
    stamps = [row["stamp"] for row in tx.execute("SELECT stamp FROM federation_changelog")]
    assert len(set(stamps)) == len(stamps) > 3


@given(st.integers(0, 10**18 - 1), st.text("0123456789abcdef-", min_size=1, max_size=40))
def test_a_cursor_reads_back_as_it_was_written(seq: int, stamp: str) -> None:
    assert parse_cursor(str(Cursor(seq, stamp))) == Cursor(seq, stamp)


@pytest.mark.parametrize("text", ["", ".", "1", "1.", ".x", "-1.x", "1e3.x", " 1.x", "9" * 19 + ".x", "x.1"])
def test_what_is_no_cursor_of_ours_is_none(text: str) -> None:
    assert parse_cursor(text) is None


@given(st.text(max_size=40))
def test_no_text_breaks_the_reading_of_cursors(text: str) -> None:
    cursor = parse_cursor(text)
    assert cursor is None or cursor.seq < 10**18


async def test_no_moment_shows_a_change_without_its_news(db: Database) -> None:
    """Whoever crashes after any COMMIT has both, or neither."""
    other = sqlite3.connect(db.path, check_same_thread=False)
    untold: list[int] = []

    def look(statement: str) -> None:
        # The COMMIT before is on disk by now, and nothing of what comes next.
        if statement.startswith("BEGIN"):
            untold.append(
                other.execute(
                    "SELECT count(*) FROM jobs j WHERE requester <> '' AND NOT EXISTS"
                    " (SELECT 1 FROM federation_changelog c WHERE c.nonce = j.nonce AND c.job_id = j.job_id)"
                ).fetchone()[0]
            )

    await db.alone(lambda tx: tx.set_trace_callback(look))
    for number in range(3):
        await db.write(partial(_add_numbered, number=number))
    await db.write(lambda tx: tx.execute("SELECT 1").fetchone())
    other.close()
    assert len(untold) > 3
    assert set(untold) == {0}


def _add_numbered(tx: Tx, number: int) -> int:
    return add_received(tx, f"/a/hub.{number}", nonce=f"n{number}").uid
