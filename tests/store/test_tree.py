"""A job and what is below it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from iris_fed.decide import lifecycle
from iris_fed.decide.newjob import child_of
from iris_fed.model.jobs import Job
from iris_fed.model.observed import AttemptEnd, Ended, EndKind
from iris_fed.model.states import JobState
from iris_fed.store.commit import commit
from iris_fed.store.connection import connect_sqlite
from iris_fed.store.db import Tx
from iris_fed.store.jobs import insert_job, job_by_id, load_draft
from iris_fed.store.migrate import load_migrations, migrate
from iris_fed.store.tree import change_unfinished_below, tree_below, unfinished_below
from tests.store.samples import NOON, add_local, local_job, start


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Tx]:
    connection = connect_sqlite(tmp_path / "c.db", NOON, set())
    migrate(connection, load_migrations(), NOON.now_ms())
    yield connection
    connection.close()


def add_child(tx: Tx, parent: Job, name: str) -> Job:
    return insert_job(tx, child_of(parent, local_job(f"{parent.job_id}/{name}"), inherits_band=True))


@pytest.fixture
def root(tx: Tx) -> Job:
    """x with a and b, a with a/c, a/c with a/c/d; beside it y with y/e."""
    root = add_local(tx, "/a/x")
    a = add_child(tx, root, "a")
    add_child(tx, root, "b")
    c = add_child(tx, a, "c")
    add_child(tx, c, "d")
    add_child(tx, add_local(tx, "/a/y"), "e")
    return root


def finish(tx: Tx, job: Job) -> None:
    job = start(tx, job, uid=job.job_id)
    draft = load_draft(tx, job)
    lifecycle.on_ended(draft, (0, 0), Ended(job.job_id, AttemptEnd(EndKind.EXITED, 0), 2_000, 3_000), 3_000, 0.0)
    commit(tx, draft)


def ids(jobs: list[Job]) -> list[str]:
    return [job.job_id.removeprefix("/a/") for job in jobs]


def test_what_is_below_a_job_comes_parents_first_and_in_pages(tx: Tx, root: Job) -> None:
    everything = tree_below(tx, root.uid, 0, 100)
    assert ids(everything) == ["x/a", "x/b", "x/a/c", "x/a/c/d"]
    assert ids(tree_below(tx, root.uid, 0, 2)) == ["x/a", "x/b"]
    assert ids(tree_below(tx, root.uid, everything[1].uid, 2)) == ["x/a/c", "x/a/c/d"]
    assert tree_below(tx, root.uid, everything[-1].uid, 2) == []


def test_only_what_is_not_over_is_unfinished_even_below_what_is(tx: Tx, root: Job) -> None:
    a = job_by_id(tx, "/a/x/a")
    assert a is not None
    finish(tx, a)
    assert sorted(ids(unfinished_below(tx, root.uid))) == ["x/a/c", "x/a/c/d", "x/b"]
    assert sorted(ids(unfinished_below(tx, a.uid))) == ["x/a/c", "x/a/c/d"]


def test_a_change_reaches_every_unfinished_job_below_and_nothing_else(tx: Tx, root: Job) -> None:
    changed = change_unfinished_below(tx, root.uid, lambda draft: lifecycle.request_cancel(draft, "bob", 5_000))
    states = {row["job_id"]: row["state"] for row in tx.execute("SELECT job_id, state FROM jobs")}
    assert {job_id for job_id, state in states.items() if state == JobState.KILLED} == {
        "/a/x/a", "/a/x/b", "/a/x/a/c", "/a/x/a/c/d",
    }  # fmt: skip
    assert len(changed) == 4
    again = change_unfinished_below(tx, root.uid, lambda draft: lifecycle.request_cancel(draft, "bob", 6_000))
    assert again == set()


def test_a_change_that_changes_nothing_names_nobody(tx: Tx, root: Job) -> None:
    assert change_unfinished_below(tx, root.uid, lambda draft: None) == set()
