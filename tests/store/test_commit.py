"""From a draft's difference to rows, and what a draft is loaded from."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from iris_fed.decide import lifecycle
from iris_fed.model.jobs import Attempt, Job, JobEvent, Task
from iris_fed.model.observed import AttemptEnd, Ended, EndKind
from iris_fed.model.resources import Usage
from iris_fed.model.states import JobState, PeerStatus, TaskState
from iris_fed.store.commit import StaleDraft, commit
from iris_fed.store.connection import connect_sqlite
from iris_fed.store.db import Tx
from iris_fed.store.jobs import (
    attempts_of,
    current_attempt,
    delete_job,
    demand_queues,
    earliest_retry,
    explain_waiting,
    insert_job,
    job_by_id,
    job_by_uid,
    live_attempts,
    load_draft,
    locate_attempts,
    next_scheduling_deadline,
    past_scheduling_deadline,
    task_counts,
)
from iris_fed.store.listing import events_of
from iris_fed.store.migrate import load_migrations, migrate
from tests.store.samples import NOON, add_local, add_sent, local_job, start


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Tx]:
    connection = connect_sqlite(tmp_path / "c.db", NOON, set())
    migrate(connection, load_migrations(), 1)
    connection.execute("BEGIN")
    yield connection
    connection.close()


def end(tx: Tx, job: Job, index: int, kind: EndKind = EndKind.EXITED, code: int | None = 0) -> Job:
    draft = load_draft(tx, job, {index})
    key = (index, draft.tasks[index].current_attempt)
    lifecycle.on_ended(draft, key, Ended("", AttemptEnd(kind, code), 2_000, 3_000), 3_000, 0.0)
    commit(tx, draft)
    return draft.job


def reload(tx: Tx, job: Job) -> Job:
    found = job_by_uid(tx, job.uid)
    assert found is not None
    return found


# --- commit ---


def test_what_was_committed_is_what_is_loaded(tx: Tx) -> None:
    job = start(tx, add_local(tx, replicas=2))
    draft = load_draft(tx, reload(tx, job), {0})
    draft.set_attempt((0, 0), usage=Usage(memory_bytes=9), devices=(0, 3), ports={"web": 80}, is_worker_failure=True)
    draft.set_task(0, error="odd")
    draft.set_job(pending_reason="one more waits", peer_status=PeerStatus.SYNCED)
    draft.note(5_000, "job.odd", "something odd", 0)
    assert commit(tx, draft)
    again = load_draft(tx, reload(tx, job), {0})
    assert again.job == replace(draft.job, queued_tasks=1)
    assert again.tasks == draft.tasks
    assert again.attempts == draft.attempts
    assert events_of(tx, job.uid)[-1] == JobEvent(job.uid, 5_000, "job.odd", "something odd", 0)


def test_a_draft_without_a_change_writes_nothing(tx: Tx) -> None:
    job = start(tx, add_local(tx))
    before = tx.total_changes
    assert commit(tx, load_draft(tx, reload(tx, job))) is False
    assert tx.total_changes == before


@pytest.mark.parametrize("stale", ["job", "task", "attempt"])
def test_a_draft_of_what_has_changed_since_is_refused(tx: Tx, stale: str) -> None:
    job = start(tx, add_local(tx, replicas=2))
    draft = load_draft(tx, reload(tx, job), {0})
    match stale:
        case "job":
            draft.set_job(error="late")
            tx.execute("UPDATE jobs SET state = 'BUILDING'")
        case "task":
            draft.set_task(0, error="late")
            tx.execute("UPDATE tasks SET state = 'BUILDING' WHERE idx = 0")
        case _:
            draft.set_attempt((0, 0), error="late")
            tx.execute("UPDATE attempts SET state = 'BUILDING'")
    with pytest.raises(StaleDraft):
        commit(tx, draft)


def test_a_draft_of_a_removed_job_is_refused(tx: Tx) -> None:
    job = add_local(tx)
    draft = load_draft(tx, job)
    draft.set_job(error="late")
    delete_job(tx, job.uid)
    with pytest.raises(StaleDraft):
        commit(tx, draft)


def test_tasks_and_attempts_that_a_mirror_first_hears_of_are_added(tx: Tx) -> None:
    job = add_sent(tx)
    draft = load_draft(tx, job, [])
    draft.add_task(Task(job_uid=job.uid, index=0, state=TaskState.RUNNING, current_attempt=1, submitted_ms=1))
    for number in (0, 1):
        draft.add_attempt(
            Attempt(job_uid=job.uid, task_index=0, number=number, attempt_uid="same-there", created_ms=1, mirrored=True)
        )
    assert commit(tx, draft)
    assert [attempt.number for attempt in attempts_of(tx, job.uid)] == [0, 1]
    assert live_attempts(tx) == []
    assert delete_job(tx, job.uid) == []


# --- load_draft ---


def test_a_draft_holds_what_is_not_over_unless_told_which(tx: Tx) -> None:
    job = add_local(tx, replicas=4)
    job = end(tx, start(tx, job, 1, "u1"), 1)
    job = end(tx, start(tx, job, 2, "u2"), 2, code=5)
    job = start(tx, job, 0, "u0")
    whole = load_draft(tx, reload(tx, job))
    assert sorted(whole.tasks) == [0, 3]
    assert sorted(whole.attempts) == [(0, 0)]
    some = load_draft(tx, reload(tx, job), [3, 1, 9])
    assert sorted(some.tasks) == [1, 3]
    assert sorted(some.attempts) == [(1, 0)]
    for draft in (whole, some, load_draft(tx, reload(tx, job), [])):
        assert draft.counts == {
            TaskState.RUNNING: 1, TaskState.PENDING: 1, TaskState.SUCCEEDED: 1, TaskState.FAILED: 1,
        }  # fmt: skip
        assert draft.first_failed is not None
        assert (draft.first_failed.index, draft.first_failed.exit_code) == (2, 5)


def test_only_the_current_attempt_of_a_task_is_loaded(tx: Tx) -> None:
    job = add_local(tx)
    tx.execute("UPDATE jobs SET spec = json_set(spec, '$.max_retries_failure', 3)")
    job = end(tx, start(tx, reload(tx, job), uid="u0"), 0, code=1)
    job = start(tx, job, uid="u1")
    draft = load_draft(tx, reload(tx, job), {0})
    assert list(draft.attempts) == [(0, 1)]
    assert [attempt.attempt_uid for attempt in attempts_of(tx, job.uid, [0])] == ["u0", "u1"]
    found = current_attempt(tx, draft.tasks[0])
    assert found is not None
    assert found.attempt_uid == "u1"


# --- what the control loop asks ---


def test_live_attempts_are_found_and_located_by_their_uid(tx: Tx) -> None:
    first, second = add_local(tx), add_local(tx, "/a/z", replicas=2)
    start(tx, first, uid="u1")
    second = start(tx, second, 1, "u2")
    assert [(a.attempt_uid, a.job_uid, a.task_index, a.kill) for a in live_attempts(tx)] == [
        ("u1", first.uid, 0, False),
        ("u2", second.uid, 1, False),
    ]
    assert locate_attempts(tx, ["u2", "nobody"]) == {"u2": (second.uid, 1, 0)}
    assert live_attempts(tx, to_kill_only=True) == []
    draft = load_draft(tx, reload(tx, second))
    lifecycle.request_cancel(draft, "bob", 4_000)
    commit(tx, draft)
    assert [a.attempt_uid for a in live_attempts(tx, to_kill_only=True)] == ["u2"]
    end(tx, reload(tx, second), 1, EndKind.KILLED, None)
    assert [a.attempt_uid for a in live_attempts(tx)] == ["u1"]


def test_two_attempts_here_never_share_a_uid(tx: Tx) -> None:
    start(tx, add_local(tx), uid="u1")
    with pytest.raises(sqlite3.IntegrityError):
        start(tx, add_local(tx, "/a/z"), uid="u1")


def queue_of(tx: Tx) -> list[list[tuple[str, list[int]]]]:
    return [
        [(queued.job.job_id, [task.index for task in queued.tasks]) for queued in queue.jobs]
        for queue in demand_queues(tx)
    ]


def test_the_queue_holds_what_waits_here_by_demand_in_order(tx: Tx) -> None:
    add_local(tx, "/a/late", submitted_ms=9)
    add_local(tx, "/a/weak", band=3)
    add_local(tx, "/a/first", submitted_ms=1, replicas=2)
    add_local(tx, "/a/other", demand="another")
    add_sent(tx)
    running = start(tx, add_local(tx, "/a/part", submitted_ms=5, replicas=3), 1)
    assert sorted(queue_of(tx)) == sorted(
        [
            [("/a/other", [0])],
            [("/a/first", [0, 1]), ("/a/part", [0, 2]), ("/a/late", [0]), ("/a/weak", [0])],
        ]
    )
    draft = load_draft(tx, reload(tx, running))
    lifecycle.request_cancel(draft, "bob", 4_000)
    commit(tx, draft)
    assert "/a/part" not in str(queue_of(tx))
    tx.execute("DELETE FROM jobs")
    assert queue_of(tx) == []


def test_a_waiting_job_is_told_why_once_and_again_when_asked_to(tx: Tx) -> None:
    one, two = add_local(tx), add_local(tx, "/a/z")
    other = add_local(tx, "/a/o", demand="another")
    assert explain_waiting(tx, one.demand, "no room", refresh=False) == {one.uid, two.uid}
    assert explain_waiting(tx, one.demand, "less room", refresh=False) == set()
    assert reload(tx, one).pending_reason == "no room"
    assert explain_waiting(tx, one.demand, "less room", refresh=True) == {one.uid, two.uid}
    assert explain_waiting(tx, one.demand, "less room", refresh=True) == set()
    assert reload(tx, two).pending_reason == "less room"
    assert reload(tx, other).pending_reason == ""


def test_deadlines_and_retries_say_when_to_look_again(tx: Tx) -> None:
    assert next_scheduling_deadline(tx) is None
    assert earliest_retry(tx, 0) is None
    late = add_local(tx, "/a/late", scheduling_deadline_ms=9_000)
    soon = add_local(tx, "/a/soon", scheduling_deadline_ms=5_000)
    assert next_scheduling_deadline(tx) == 5_000
    assert past_scheduling_deadline(tx, 4_999) == []
    assert [job.job_id for job in past_scheduling_deadline(tx, 5_000)] == ["/a/soon"]
    start(tx, soon, uid="u1")
    assert next_scheduling_deadline(tx) == 9_000
    tx.execute("UPDATE tasks SET not_before_ms = 7000 WHERE job_uid = ?", (late.uid,))
    assert earliest_retry(tx, 6_999) == 7_000
    assert earliest_retry(tx, 7_000) is None


# --- whole jobs ---


def test_a_new_job_has_a_waiting_task_per_replica_and_one_handed_off_has_none(tx: Tx) -> None:
    here, there = add_local(tx, replicas=3), add_sent(tx)
    assert task_counts(tx, here.uid) == {TaskState.PENDING: 3}
    assert task_counts(tx, there.uid) == {}
    assert job_by_id(tx, "/a/x") == here
    assert job_by_id(tx, "/a/nobody") is None
    assert job_by_uid(tx, 999) is None


def test_a_uid_is_never_used_twice(tx: Tx) -> None:
    first = add_local(tx)
    delete_job(tx, first.uid)
    assert insert_job(tx, local_job()).uid > first.uid


def test_removing_a_job_removes_its_tree_and_tells_what_files_may_go(tx: Tx) -> None:
    root = start(tx, add_local(tx), uid="u-root")
    child = start(tx, add_local(tx, "/a/x/eval", parent_uid=root.uid), uid="u-child")
    add_local(tx, "/a/x/eval/deep", parent_uid=child.uid)
    other = add_local(tx, "/a/z")
    assert sorted(delete_job(tx, root.uid)) == ["u-child", "u-root"]
    assert [row["job_id"] for row in tx.execute("SELECT job_id FROM jobs")] == ["/a/z"]
    for table in ("tasks", "attempts", "job_events"):
        left = {row["job_uid"] for row in tx.execute(f"SELECT job_uid FROM {table}")}
        assert left <= {other.uid}


def test_a_row_that_cannot_be_is_refused_by_the_database(tx: Tx) -> None:
    add_local(tx)
    for harm in (
        "UPDATE jobs SET state = 'DONE'",
        "UPDATE jobs SET state = 'FAILED'",
        "UPDATE jobs SET finished_ms = 5",
        "UPDATE jobs SET band = 9",
        "UPDATE jobs SET requester = 'hub'",
        "UPDATE jobs SET requester = 'hub', cluster = 'moon', nonce = 'n'",
        "UPDATE jobs SET stop_state = 'SUCCEEDED'",
        "UPDATE jobs SET queued_tasks = -1",
        "UPDATE jobs SET exit_code = 'three'",
        "UPDATE tasks SET state = 'LOST'",
        "UPDATE tasks SET idx = -1",
        "INSERT INTO tasks (job_uid, idx, state, submitted_ms) VALUES (999, 0, 'PENDING', 1)",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            tx.execute(harm)


def test_a_job_state_of_the_model_is_one_of_the_database(tx: Tx) -> None:
    add_local(tx)
    for state in JobState:
        finished = None if state in ("PENDING", "BUILDING", "RUNNING") else 5
        tx.execute("UPDATE jobs SET state = ?, finished_ms = ?", (state.value, finished))
    for task_state in TaskState:
        tx.execute("UPDATE tasks SET state = ?", (task_state.value,))
    for status in PeerStatus:
        tx.execute("UPDATE jobs SET peer_status = ?", (status.value,))
    assert tx.execute("SELECT peer_status FROM jobs").fetchone()[0] == "REJECTED"
