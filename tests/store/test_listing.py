"""Reading jobs for people: filters, order, pages, and plans that use indexes."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iris_fed.model.jobs import Job, JobEvent, JobPage, JobQuery
from iris_fed.model.states import JobState, TaskState
from iris_fed.store.changelog import changes_after
from iris_fed.store.connection import connect_sqlite
from iris_fed.store.db import Tx
from iris_fed.store.handles import due_sent, next_due_ms, received_page
from iris_fed.store.jobs import (
    count_queued_tasks,
    demand_queues,
    earliest_retry,
    explain_waiting,
    insert_event,
    job_by_id,
    live_attempts,
    locate_attempts,
    next_scheduling_deadline,
    past_scheduling_deadline,
)
from iris_fed.store.listing import (
    MAX_EVENTS,
    events_of,
    list_jobs,
    states_by_id,
    task_counts_here,
    task_views,
    view_by_id,
)
from iris_fed.store.migrate import load_migrations, migrate
from tests.store.samples import NOON, add_local, add_received, add_sent, start


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Tx]:
    connection = connect_sqlite(tmp_path / "c.db", NOON, set())
    migrate(connection, load_migrations(), 1)
    connection.execute("BEGIN")
    yield connection
    connection.close()


def names(page: JobPage) -> list[str]:
    return [view.job.job_id for view in page.jobs]


def listed(tx: Tx, **query: Any) -> list[str]:
    page = list_jobs(tx, JobQuery(**query))
    assert page.total == len(page.jobs)
    assert not page.has_more
    return names(page)


# --- filters ---


@pytest.fixture
def zoo(tx: Tx) -> Tx:
    root = add_local(tx, "/alice/train", submitted_ms=1)
    start(tx, add_local(tx, "/alice/train/Eval", parent_uid=root.uid, submitted_ms=2), uid="u1")
    add_local(tx, "/bob/50%_off", submitted_ms=3)
    add_local(tx, "/bob/50xxoff", submitted_ms=4)
    add_sent(tx, "/a/away")
    add_received(tx, "/a/hub.x")
    tx.execute("UPDATE jobs SET submitted_ms = 5 WHERE job_id = '/a/away'")
    tx.execute("UPDATE jobs SET submitted_ms = 6, state = 'FAILED', finished_ms = 9 WHERE job_id = '/a/hub.x'")
    return tx


EVERYTHING = ["/a/hub.x", "/a/away", "/bob/50xxoff", "/bob/50%_off", "/alice/train/Eval", "/alice/train"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, EVERYTHING),
        ({"scope": "all"}, EVERYTHING),
        ({"scope": "roots"}, [name for name in EVERYTHING if not name.endswith("Eval")]),
        ({"scope": "children", "parent_job_id": "/alice/train"}, ["/alice/train/Eval"]),
        ({"scope": "children", "parent_job_id": "/alice/nobody"}, []),
        ({"states": frozenset({JobState.FAILED})}, ["/a/hub.x"]),
        ({"states": frozenset({JobState.FAILED, JobState.RUNNING})}, ["/a/hub.x", "/alice/train/Eval"]),
        ({"name_contains": "EVAL"}, ["/alice/train/Eval"]),
        ({"name_contains": "%"}, ["/bob/50%_off"]),
        ({"name_contains": "_"}, ["/bob/50%_off"]),
        ({"job_id_prefix": "/bob/50%"}, ["/bob/50%_off"]),
        ({"job_id_prefix": "/bob/50_"}, []),
        ({"job_id_prefix": "/alice/train"}, ["/alice/train/Eval", "/alice/train"]),
        ({"job_id_prefix": "/Alice"}, []),
        ({"backend_id": "local"}, ["/alice/train/Eval"]),
        ({"cluster": "moon"}, ["/a/away"]),
        ({"cluster": "local"}, [name for name in EVERYTHING if name != "/a/away"]),
        ({"cluster": "local", "scope": "roots", "job_id_prefix": "/a"}, ["/a/hub.x", "/alice/train"]),
    ],
)
def test_a_filter_keeps_what_it_says(zoo: Tx, query: dict[str, Any], expected: list[str]) -> None:
    assert listed(zoo, **query) == expected


@pytest.mark.parametrize(
    "name", ["/a/%", "/a/_", "/a/[x]", "/a/*", "/a/é", "/a/日本", "/a/'; DROP TABLE jobs; --", "/a/😀"]
)
def test_a_prefix_has_no_special_characters(tx: Tx, name: str) -> None:
    add_local(tx, name)
    add_local(tx, name + "/child")
    add_local(tx, name + "~")
    add_local(tx, "/a/b")
    assert sorted(listed(tx, job_id_prefix=name)) == sorted([name, name + "/child", name + "~"])
    assert listed(tx, name_contains=name + "~") == [name + "~"]


# --- order ---

KEYS: dict[str, Callable[[Job], Any]] = {
    "date": lambda j: j.submitted_ms,
    "name": lambda j: j.job_id.encode(),
    "state": lambda j: j.state.value,
    "failures": lambda j: j.failure_count,
    "preemptions": lambda j: j.preemption_count,
}


@pytest.fixture
def crowd(tx: Tx) -> Tx:
    """Forty jobs, many with equal keys."""
    chance = random.Random(7)
    for number in range(40):
        job = add_local(tx, f"/a/{chance.randrange(10**6)}-{number}", submitted_ms=chance.randrange(5))
        tx.execute(
            "UPDATE jobs SET state = ?, failure_count = ?, preemption_count = ? WHERE uid = ?",
            (chance.choice(["PENDING", "BUILDING", "RUNNING"]), chance.randrange(3), chance.randrange(3), job.uid),
        )
    return tx


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("sort", KEYS)
def test_jobs_come_in_the_order_asked_for_and_pages_make_up_the_whole(crowd: Tx, sort: str, descending: bool) -> None:
    whole = list_jobs(crowd, JobQuery(sort=sort, descending=descending))
    keys = [KEYS[sort](view.job) for view in whole.jobs]
    assert keys == sorted(keys, reverse=descending)
    assert len(keys) == 40
    pages = [
        list_jobs(crowd, JobQuery(sort=sort, descending=descending, offset=offset, limit=7))
        for offset in range(0, 42, 7)
    ]
    assert [name for page in pages for name in names(page)] == names(whole)
    assert [page.has_more for page in pages] == [True] * 5 + [False]
    assert {page.total for page in pages} == {40}


def test_what_is_submitted_meanwhile_moves_no_job_between_earlier_pages(crowd: Tx) -> None:
    query = JobQuery(sort="date", descending=False, limit=10)
    before = names(list_jobs(crowd, replace(query, limit=40)))
    seen: list[str] = []
    for number in range(4):
        seen += names(list_jobs(crowd, replace(query, offset=number * 10)))
        add_local(crowd, f"/a/new-{number}", submitted_ms=100 + number)
    assert seen == before


def test_what_is_submitted_meanwhile_hides_no_older_job_from_the_newest_first(crowd: Tx) -> None:
    query = JobQuery(sort="date", descending=True, limit=10)
    before = names(list_jobs(crowd, replace(query, limit=40)))
    seen: list[str] = []
    for number in range(5):
        seen += names(list_jobs(crowd, replace(query, offset=number * 10)))
        add_local(crowd, f"/a/new-{number}", submitted_ms=100 + number)
    assert list(dict.fromkeys(seen)) == before


def test_a_page_beyond_the_end_is_empty(crowd: Tx) -> None:
    page = list_jobs(crowd, JobQuery(offset=1_000))
    assert (page.jobs, page.total, page.has_more) == ((), 40, False)


# --- one job ---


def test_a_view_counts_tasks_and_knows_its_family(zoo: Tx) -> None:
    root, child = view_by_id(zoo, "/alice/train"), view_by_id(zoo, "/alice/train/Eval")
    assert root is not None
    assert child is not None
    assert (root.has_children, root.parent_job_id, root.task_counts) == (True, "", {"PENDING": 1})
    assert (child.has_children, child.parent_job_id, child.task_counts) == (False, "/alice/train", {"RUNNING": 1})
    assert view_by_id(zoo, "/nobody/x") is None


def test_states_are_told_of_those_that_exist(zoo: Tx) -> None:
    assert states_by_id(zoo, ["/a/hub.x", "/nobody/x", "/alice/train"]) == {
        "/a/hub.x": JobState.FAILED,
        "/alice/train": JobState.PENDING,
    }


def test_a_waiting_task_without_a_reason_shows_its_jobs(tx: Tx) -> None:
    job = start(tx, add_local(tx, replicas=3), 0)
    tx.execute("UPDATE jobs SET pending_reason = 'no room'")
    tx.execute("UPDATE tasks SET pending_reason = 'backing off' WHERE idx = 2")
    stored = job_by_id(tx, job.job_id)
    assert stored is not None
    views = task_views(tx, stored)
    assert [view.task.pending_reason for view in views] == ["", "no room", "backing off"]
    assert [len(view.attempts) for view in views] == [1, 0, 0]
    assert [view.task.index for view in task_views(tx, stored, [2, 0, 9])] == [2, 0]


def test_what_waits_and_what_runs_here_is_counted(zoo: Tx) -> None:
    counts = task_counts_here(zoo)
    assert counts.pending == count_queued_tasks(zoo) == 4
    assert counts.live_by_backend == {"local": 1}


def test_of_a_long_story_the_newest_part_is_told_oldest_first(tx: Tx) -> None:
    job = add_local(tx)
    for number in range(MAX_EVENTS + 5):
        insert_event(tx, job.uid, JobEvent(job.uid, number, "x", f"event {number}"))
    told = events_of(tx, job.uid)
    assert [event.message for event in (told[0], told[-1])] == ["event 5", f"event {MAX_EVENTS + 4}"]
    assert len(told) == MAX_EVENTS


# --- twenty thousand jobs ---


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tx]:
    connection = connect_sqlite(tmp_path_factory.mktemp("large") / "c.db", NOON, set())
    migrate(connection, load_migrations(), 1)
    connection.execute("BEGIN")
    add_local(connection, "/a/seed")
    start(connection, add_local(connection, "/a/live"), uid="u1")
    add_received(connection)
    add_sent(connection)
    columns = "user, submitting_user, spec, band, task_count, demand"
    connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
        f" INSERT INTO jobs (job_id, state, submitted_ms, finished_ms, {columns})"
        f" SELECT '/a/old-' || i, 'SUCCEEDED', i, i + 1, {columns} FROM n, jobs WHERE job_id = '/a/seed'"
    )
    connection.execute(
        "INSERT INTO tasks (job_uid, idx, state, submitted_ms, finished_ms)"
        " SELECT uid, 0, 'SUCCEEDED', 1, 2 FROM jobs WHERE job_id LIKE '/a/old-%'"
    )
    connection.execute(
        "INSERT INTO attempts (job_uid, task_index, number, attempt_uid, state, created_ms, finished_ms)"
        " SELECT job_uid, 0, 0, 'old-' || job_uid, 'SUCCEEDED', 1, 2 FROM tasks WHERE state = 'SUCCEEDED'"
    )
    connection.execute(
        "INSERT INTO job_events (job_uid, time_ms, kind, message) SELECT job_uid, 1, 'job.ended', 'ended' FROM tasks"
    )
    connection.execute("COMMIT")
    connection.execute("ANALYZE")
    yield connection
    connection.close()


def plan_of(tx: Tx, run: Callable[[Tx], object]) -> list[str]:
    """The steps of every query that `run` makes, as SQLite means to take them."""
    made: list[str] = []
    tx.set_trace_callback(made.append)
    run(tx)
    tx.set_trace_callback(None)
    steps = [row["detail"] for sql in made for row in tx.execute(f"EXPLAIN QUERY PLAN {sql}")]
    assert steps
    return steps


QUERIES: dict[str, Callable[[Tx], object]] = {
    "the newest jobs": lambda tx: list_jobs(tx, JobQuery()),
    "the oldest jobs": lambda tx: list_jobs(tx, JobQuery(descending=False)),
    "by name": lambda tx: list_jobs(tx, JobQuery(sort="name", descending=False)),
    "a prefix": lambda tx: list_jobs(tx, JobQuery(sort="name", descending=False, job_id_prefix="/a/old-199")),
    "by state": lambda tx: list_jobs(tx, JobQuery(sort="state")),
    "children": lambda tx: list_jobs(tx, JobQuery(scope="children", parent_job_id="/a/seed")),
    "running jobs": lambda tx: list_jobs(tx, JobQuery(states=frozenset({JobState.RUNNING}))),
    "one job": lambda tx: view_by_id(tx, "/a/old-17"),
    "the queue": lambda tx: [list(queue.jobs) for queue in demand_queues(tx)],
    "why the queue waits": lambda tx: explain_waiting(tx, "no such demand", "no room", refresh=True),
    "live attempts": live_attempts,
    "attempts to kill": lambda tx: live_attempts(tx, to_kill_only=True),
    "an attempt": lambda tx: locate_attempts(tx, ["u1"]),
    "deadlines": lambda tx: (next_scheduling_deadline(tx), past_scheduling_deadline(tx, 5)),
    "retries": lambda tx: earliest_retry(tx, 5),
    "counts": task_counts_here,
    "the outbox": lambda tx: (due_sent(tx, "moon", 5, 9), next_due_ms(tx, "moon")),
    "a feed": lambda tx: changes_after(tx, "hub", 0, 10),
    "a full set": lambda tx: received_page(tx, "hub", 0, 10),
    "events": lambda tx: events_of(tx, 1),
}
SORTED_IN_MEMORY = {"running jobs", "children", "events", "live attempts", "attempts to kill"}
"""Few rows by their filter or limit; the order is made of those."""
TABLES = ("jobs", "tasks", "attempts", "federated_jobs", "federation_changelog", "job_events")


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_over_many_jobs_uses_an_index(large: Tx, name: str) -> None:
    steps = plan_of(large, QUERIES[name])
    walks = [step for step in steps if step.startswith("SCAN") and step.split()[1] in TABLES]
    assert not [step for step in walks if "INDEX" not in step]
    if name not in SORTED_IN_MEMORY:
        assert not [step for step in steps if "TEMP B-TREE FOR ORDER BY" in step]


def test_every_task_state_can_be_counted(tx: Tx) -> None:
    add_local(tx, replicas=len(TaskState))
    for index, state in enumerate(TaskState):
        tx.execute("UPDATE tasks SET state = ? WHERE idx = ?", (state.value, index))
    view = view_by_id(tx, "/a/x")
    assert view is not None
    assert view.task_counts == {state.value: 1 for state in TaskState}
