"""Handles go when no late message can ask for them any more, and not before."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from iris_fed.model.federation import ReceivedHandle
from iris_fed.model.limits import REPLAY_WINDOW_MS
from iris_fed.model.states import JobState, ReceivedState, SentState
from iris_fed.store.changelog import newest_cursor, touch
from iris_fed.store.connection import Tx, connect_sqlite
from iris_fed.store.handles import insert_received, insert_sent
from iris_fed.store.handles_prune import _LAST_CHANGE, MAX_WINDOWS, START, remove_received, remove_sent
from iris_fed.store.jobs import delete_job
from iris_fed.store.migrate import load_migrations, migrate
from iris_fed.store.requesters import Heard, load_requester, raise_pruned, save_heard
from tests.store.samples import NOON, add_received, add_sent, sent_handle

CLOSED = 5_000
BARELY = CLOSED + REPLAY_WINDOW_MS
LATER = BARELY + 1
MUCH_LATER = CLOSED + MAX_WINDOWS * REPLAY_WINDOW_MS + 1


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Tx]:
    connection = connect_sqlite(tmp_path / "c.db", NOON, set())
    migrate(connection, load_migrations(), 1)
    yield connection
    connection.close()


def left(tx: Tx) -> set[str]:
    return {row["nonce"] for row in tx.execute("SELECT nonce FROM federated_jobs")}


def add_closed(tx: Tx, nonce: str, closed_ms: int = CLOSED) -> None:
    insert_sent(tx, sent_handle(f"/a/{nonce}", nonce, state=SentState.CLOSED, closed_ms=closed_ms))


def add_over(tx: Tx, nonce: str, state: ReceivedState = ReceivedState.PRUNED) -> int:
    """A received handle whose job is gone; the sequence of its last change."""
    end = None if state is ReceivedState.FENCED else JobState.FAILED
    handle = ReceivedHandle(
        nonce=nonce, requester="hub", job_id=f"/a/hub.{nonce}", state=state, created_ms=1, closed_ms=CLOSED,
        end_state=end,
    )  # fmt: skip
    insert_received(tx, handle)
    touch(tx, "hub", nonce, handle.job_id)
    return newest_cursor(tx, "db").seq


def read_up_to(tx: Tx, seq: int) -> None:
    save_heard(tx, {"hub": Heard(seq, seq, 1)})


# --- sent ---


def test_a_closed_handle_stays_for_the_window_and_then_goes(tx: Tx) -> None:
    add_closed(tx, "s1")
    assert remove_sent(tx, START, BARELY, 10) == START
    assert left(tx) == {"s1"}
    remove_sent(tx, START, LATER, 10)
    assert left(tx) == set()


def test_a_closed_handle_stays_as_long_as_its_job_is_shown(tx: Tx) -> None:
    job = add_sent(tx, state=SentState.CLOSED, closed_ms=CLOSED)
    add_closed(tx, "earlier-incarnation")
    tx.execute("UPDATE federated_jobs SET job_id = ? WHERE nonce = 'earlier-incarnation'", (job.job_id,))
    remove_sent(tx, START, MUCH_LATER, 10)
    assert left(tx) == {"s1"}
    delete_job(tx, job.uid)
    remove_sent(tx, START, MUCH_LATER, 10)
    assert left(tx) == set()


def test_an_open_handle_never_goes(tx: Tx) -> None:
    job = add_sent(tx)
    delete_job(tx, job.uid)
    remove_sent(tx, START, MUCH_LATER, 10)
    assert left(tx) == {"s1"}


def test_the_next_look_goes_on_behind_those_that_have_to_stay(tx: Tx) -> None:
    for number in range(3):
        add_sent(tx, f"/a/stays-{number}", f"stays-{number}", state=SentState.CLOSED, closed_ms=CLOSED)
    for number in range(3):
        add_closed(tx, f"goes-{number}")
    place = remove_sent(tx, START, LATER, 2)
    place = remove_sent(tx, place, LATER, 2)
    assert left(tx) == {"stays-0", "stays-1", "stays-2", "goes-1", "goes-2"}
    place = remove_sent(tx, place, LATER, 2)
    assert left(tx) == {"stays-0", "stays-1", "stays-2"}
    assert remove_sent(tx, place, LATER, 2) == START


# --- received ---


@pytest.mark.parametrize("state", [ReceivedState.FENCED, ReceivedState.SUPERSEDED, ReceivedState.PRUNED])
def test_a_handle_whose_last_change_was_read_goes_after_the_window(tx: Tx, state: ReceivedState) -> None:
    read_up_to(tx, add_over(tx, "r1", state))
    remove_received(tx, START, BARELY, 10)
    assert left(tx) == {"r1"}
    remove_received(tx, START, LATER, 10)
    assert left(tx) == set()


def test_an_unread_change_keeps_its_handle_for_four_windows_at_most(tx: Tx) -> None:
    read_up_to(tx, add_over(tx, "read"))
    last = add_over(tx, "unread")
    remove_received(tx, START, MUCH_LATER - 1, 10)
    assert left(tx) == {"unread"}
    remove_received(tx, START, MUCH_LATER, 10)
    assert left(tx) == set()
    # Whoever has not read it reads everything anew.
    assert load_requester(tx, "hub").pruned_seq == last


def test_a_requester_that_never_came_is_waited_for(tx: Tx) -> None:
    add_over(tx, "r1")
    tx.execute("DELETE FROM federation_changelog")
    remove_received(tx, START, LATER, 10)
    assert left(tx) == {"r1"}


def test_news_that_went_unread_keeps_the_handle_for_the_full_set_that_must_follow(tx: Tx) -> None:
    last = add_over(tx, "r1")
    read_up_to(tx, last - 1)
    tx.execute("DELETE FROM federation_changelog")
    raise_pruned(tx, "hub", last)
    remove_received(tx, START, LATER, 10)
    assert left(tx) == {"r1"}
    read_up_to(tx, last)
    remove_received(tx, START, LATER, 10)
    assert left(tx) == set()


def test_an_admitted_handle_never_goes(tx: Tx) -> None:
    add_received(tx)
    read_up_to(tx, newest_cursor(tx, "db").seq)
    remove_received(tx, START, MUCH_LATER, 10)
    assert left(tx) == {"n1"}


def test_removing_a_handle_tells_nobody(tx: Tx) -> None:
    read_up_to(tx, add_over(tx, "r1"))
    before = newest_cursor(tx, "db")
    remove_received(tx, START, LATER, 10)
    assert newest_cursor(tx, "db") == before


def test_the_last_change_of_a_handle_is_found_by_index(tx: Tx) -> None:
    (step,) = [row["detail"] for row in tx.execute(f"EXPLAIN QUERY PLAN {_LAST_CHANGE}", ("hub", "n1"))]
    assert "federation_changelog_by_subject (requester=? AND nonce=?)" in step
