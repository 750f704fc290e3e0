"""Every committed change of a job's tree is told after COMMIT, whichever code made it."""

from collections.abc import Mapping

import pytest

from iris_fed.store.changed_jobs import MAX_NOTED
from iris_fed.store.db import Database, Tx
from iris_fed.store.jobs import delete_job
from tests.store.samples import add_local, add_received


class Told:
    def __init__(self) -> None:
        self.last: tuple[Mapping[str, str], bool] = {}, False

    def __call__(self, roots: Mapping[str, str], many: bool) -> None:
        self.last = roots, many


@pytest.fixture
async def told(db: Database) -> Told:
    told = Told()
    await db.write(add_local)
    await db.follow_jobs(told)
    return told


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE jobs SET pending_reason = 'full' WHERE job_id = '/a/x'",
        "UPDATE tasks SET error = 'e' WHERE idx = 0",
        "INSERT INTO attempts (job_uid, task_index, number, attempt_uid, state, created_ms)"
        " VALUES (1, 0, 0, 'u', 'ASSIGNED', 1)",
        "INSERT INTO job_events (job_uid, time_ms, kind, message) VALUES (1, 1, 'k', 'm')",
        "DELETE FROM jobs WHERE job_id = '/a/x'",
    ],
)
async def test_a_change_of_any_of_its_rows_names_the_root_and_its_owner(
    db: Database, told: Told, statement: str
) -> None:
    await db.write(lambda tx: tx.execute(statement).rowcount)
    assert told.last == ({"/a/x": "a"}, False)


async def test_a_child_counts_for_its_root_and_a_received_job_is_nobodys_own(db: Database, told: Told) -> None:
    def add(tx: Tx) -> None:
        add_local(tx, "/a/x/child", parent_uid=1)
        add_received(tx)

    await db.write(add)
    assert told.last == ({"/a/x": "a", "/a/hub.x": ""}, False)


async def test_who_waits_for_its_write_finds_the_news_told(db: Database, told: Told) -> None:
    await db.write(lambda tx: add_local(tx, "/a/z"))
    assert "/a/z" in told.last[0]
    assert await db.write(lambda tx: delete_job(tx, 2)) == []
    assert "/a/z" in told.last[0]


async def test_of_very_many_only_that_is_told(db: Database, told: Told) -> None:
    def add(tx: Tx) -> None:
        for number in range(MAX_NOTED + 1):
            add_local(tx, f"/a/{number}")

    await db.write(add)
    roots, many = told.last
    assert (len(roots), many) == (MAX_NOTED, True)


async def test_reading_and_writing_other_tables_is_no_news(db: Database, told: Told) -> None:
    told.last = {}, False
    await db.write(lambda tx: tx.execute("UPDATE cluster_meta SET value = value").rowcount)
    await db.read(lambda tx: tx.execute("SELECT * FROM jobs").fetchall())
    assert told.last == ({}, False)
