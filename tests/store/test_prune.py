"""What is past its retention is found and removed; what somebody still needs is not."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from iris_fed.model.jobs import Job
from iris_fed.model.limits import DAY_MS
from iris_fed.model.states import JobState, ReceivedState
from iris_fed.store.connection import Tx, connect_sqlite
from iris_fed.store.handles import received_by_nonce
from iris_fed.store.jobs import insert_job, job_by_id, job_by_uid
from iris_fed.store.migrate import load_migrations, migrate
from iris_fed.store.prune import expired_files, expired_jobs, mark_files_gone, remove_job
from tests.store.samples import NOON, add_local, add_received, add_sent, local_job, start

END = 10 * DAY_MS
LATER = END + 40 * DAY_MS


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Tx]:
    connection = connect_sqlite(tmp_path / "c.db", NOON, set())
    migrate(connection, load_migrations(), NOON.now_ms())
    yield connection
    connection.close()


def end(tx: Tx, job: Job, at_ms: int = END) -> None:
    tx.execute("UPDATE attempts SET state = 'SUCCEEDED', finished_ms = ? WHERE job_uid = ?", (at_ms, job.uid))
    tx.execute("UPDATE tasks SET state = 'SUCCEEDED', finished_ms = ? WHERE job_uid = ?", (at_ms, job.uid))
    tx.execute(
        "UPDATE jobs SET state = 'SUCCEEDED', exit_code = 0, finished_ms = ?, queued_tasks = 0 WHERE uid = ?",
        (at_ms, job.uid),
    )


def expired(tx: Tx, now_ms: int = LATER, before_ms: int = END + 1) -> list[int]:
    return expired_jobs(tx, now_ms, before_ms, 10)


def test_files_of_ended_attempts_go_once_and_those_of_running_ones_stay(tx: Tx) -> None:
    over, running = add_local(tx, "/a/over"), add_local(tx, "/a/running")
    start(tx, over, uid="u-over")
    start(tx, running, uid="u-running")
    end(tx, over)
    assert expired_files(tx, END, 10) == []
    found = expired_files(tx, END + 1, 10)
    assert [uid for _, uid in found] == ["u-over"]
    mark_files_gone(tx, ["u-over"])
    assert expired_files(tx, END + 1, 10) == []


def test_a_job_goes_when_its_time_is_over_and_not_before(tx: Tx) -> None:
    job = add_local(tx, "/a/over")
    start(tx, job, uid="u1")
    add_local(tx, "/a/running")
    end(tx, job)
    assert expired(tx, before_ms=END) == []
    assert expired(tx) == [job.uid]
    assert [uid for _, uid in remove_job(tx, job.uid, LATER)] == ["u1"]
    assert job_by_uid(tx, job.uid) is None
    assert remove_job(tx, job.uid, LATER) == []


def test_a_tree_goes_together_and_only_when_all_of_it_is_over(tx: Tx) -> None:
    root = add_local(tx, "/a/root")
    child = insert_job(tx, replace(local_job("/a/root/child"), parent_uid=root.uid))
    end(tx, root)
    assert expired(tx) == []
    end(tx, child)
    assert expired(tx) == [root.uid]
    remove_job(tx, root.uid, LATER)
    assert job_by_id(tx, "/a/root/child") is None


def test_a_received_job_is_kept_a_week_and_leaves_how_it_ended(tx: Tx) -> None:
    job = add_received(tx)
    end(tx, job)
    assert expired(tx, now_ms=END + 6 * DAY_MS) == []
    assert expired(tx, now_ms=END + 8 * DAY_MS) == [job.uid]
    before = tx.execute("SELECT count(*) AS n FROM federation_changelog WHERE tombstone = 1").fetchone()["n"]
    remove_job(tx, job.uid, LATER)
    handle = received_by_nonce(tx, "hub", "n1")
    assert handle is not None
    assert (handle.state, handle.end_state, handle.end_exit_code) == (ReceivedState.PRUNED, JobState.SUCCEEDED, 0)
    after = tx.execute("SELECT count(*) AS n FROM federation_changelog WHERE tombstone = 1").fetchone()["n"]
    assert after == before + 1


def test_a_job_that_an_open_handle_needs_stays(tx: Tx) -> None:
    job = add_sent(tx)
    tx.execute("UPDATE jobs SET state = 'KILLED', finished_ms = ? WHERE uid = ?", (END, job.uid))
    assert expired(tx) == []
    tx.execute("UPDATE federated_jobs SET state = 'CLOSED', closed_ms = ? WHERE job_id = ?", (END, job.job_id))
    assert expired(tx) == [job.uid]
