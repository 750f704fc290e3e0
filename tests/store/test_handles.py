"""Rows of handles and peers: what is written is read, and a change of what has changed since is refused."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from iris_fed.errors import IllegalTransition
from iris_fed.model.federation import PeerState, ReceivedHandle, SentHandle
from iris_fed.model.resources import Availability, BackendSummary, NodeShape
from iris_fed.model.states import ExistingJobPolicy, JobState, ReceivedState, SentState
from iris_fed.store.commit import StaleDraft
from iris_fed.store.connection import connect_sqlite
from iris_fed.store.db import Tx
from iris_fed.store.handles import (
    count_open_sent,
    due_sent,
    insert_received,
    insert_sent,
    load_peer,
    next_due_ms,
    open_sent,
    open_sent_by_job,
    received_by_nonce,
    received_page,
    save_peer,
    sent_by_nonce,
    supersede_received,
    update_sent,
)
from iris_fed.store.jobs import job_by_id
from iris_fed.store.migrate import load_migrations, migrate
from tests.store.samples import NOON, add_received, sent_handle

FULL = SentHandle(
    nonce="s1", peer="moon", job_id="/a/y", remote_job_id="/a/lab.y", state=SentState.HANDED_OFF,
    policy=ExistingJobPolicy.KEEP, owner="a", submitting_user="a@lab", sent=True, unanswered=True, cancelled_ms=3,
    cancel_acked=True, created_ms=1, expires_ms=9, acked_ms=4, deliveries=5, tries=6, next_try_ms=7,
    last_error="down", refusal="no", missing_since_ms=8, lost=True, adopted=True,
)  # fmt: skip


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Tx]:
    connection = connect_sqlite(tmp_path / "c.db", NOON, set())
    migrate(connection, load_migrations(), 1)
    connection.execute("BEGIN")
    yield connection
    connection.close()


def closed(handle: SentHandle) -> SentHandle:
    return replace(handle, state=SentState.CLOSED, closed_ms=9)


def test_a_handle_is_read_as_it_was_written(tx: Tx) -> None:
    insert_sent(tx, FULL)
    assert sent_by_nonce(tx, "moon", "s1") == FULL
    assert sent_by_nonce(tx, "mars", "s1") is None
    received = ReceivedHandle(
        nonce="n1", requester="hub", job_id="/a/hub.x", state=ReceivedState.PRUNED, owner="a",
        submitting_user="a@lab", created_ms=1, closed_ms=2, end_state=JobState.FAILED,
        end_error="boom", end_exit_code=3,
    )  # fmt: skip
    insert_received(tx, received)
    assert received_by_nonce(tx, "hub", "n1") == received
    assert received_by_nonce(tx, "moon", "n1") is None


def test_a_change_is_written_and_nothing_else(tx: Tx) -> None:
    insert_sent(tx, FULL)
    insert_sent(tx, sent_handle("/a/z", "s2"))
    update_sent(tx, FULL, closed(FULL))
    assert sent_by_nonce(tx, "moon", "s1") == closed(FULL)
    assert sent_by_nonce(tx, "moon", "s2") == sent_handle("/a/z", "s2")
    before = tx.total_changes
    update_sent(tx, closed(FULL), closed(FULL))
    assert tx.total_changes == before


def test_a_change_of_a_handle_that_moved_on_is_refused(tx: Tx) -> None:
    handle = sent_handle()
    insert_sent(tx, handle)
    update_sent(tx, handle, closed(handle))
    with pytest.raises(StaleDraft):
        update_sent(tx, handle, replace(handle, tries=1))
    with pytest.raises(StaleDraft):
        update_sent(tx, sent_handle(nonce="nobody"), replace(sent_handle(nonce="nobody"), tries=1))


@pytest.mark.parametrize("state", [SentState.PENDING_HANDOFF, SentState.HANDED_OFF])
def test_nothing_leads_out_of_a_closed_handle(tx: Tx, state: SentState) -> None:
    handle = closed(sent_handle())
    insert_sent(tx, handle)
    with pytest.raises(IllegalTransition, match=f"handle s1 of /a/y: CLOSED -> {state}"):
        update_sent(tx, handle, replace(handle, state=state, closed_ms=None))


def test_a_name_has_one_open_incarnation_at_most(tx: Tx) -> None:
    insert_sent(tx, sent_handle(nonce="s1"))
    with pytest.raises(sqlite3.IntegrityError):
        insert_sent(tx, sent_handle(nonce="s2", peer="mars"))
    update_sent(tx, sent_handle(nonce="s1"), closed(sent_handle(nonce="s1")))
    insert_sent(tx, sent_handle(nonce="s2", peer="mars"))
    found = open_sent_by_job(tx, "/a/y")
    assert found is not None
    assert found.nonce == "s2"
    with pytest.raises(sqlite3.IntegrityError):
        insert_sent(tx, closed(sent_handle(nonce="s1")))


def test_a_peer_admits_one_incarnation_of_a_name_at_a_time(tx: Tx) -> None:
    add_received(tx)
    second = ReceivedHandle(nonce="n2", requester="hub", job_id="/a/hub.x", state=ReceivedState.ADMITTED, created_ms=1)
    with pytest.raises(sqlite3.IntegrityError):
        insert_received(tx, second)
    insert_received(tx, replace(second, state=ReceivedState.FENCED))


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE federated_jobs SET state = 'ADMITTED'",
        "UPDATE federated_jobs SET state = 'CLOSED'",
        "UPDATE federated_jobs SET closed_ms = 5",
        "UPDATE federated_jobs SET nonce = ''",
        "UPDATE federated_jobs SET direction = 'LOST'",
    ],
)
def test_a_handle_that_cannot_be_is_refused_by_the_database(tx: Tx, harm: str) -> None:
    insert_sent(tx, sent_handle())
    with pytest.raises(sqlite3.IntegrityError):
        tx.execute(harm)


# --- the outbox ---


def test_what_is_due_is_what_has_something_to_say_now(tx: Tx) -> None:
    handles = {
        "delivery": sent_handle("/a/1", "delivery", next_try_ms=50),
        "later": sent_handle("/a/2", "later", next_try_ms=200),
        "expired": sent_handle("/a/3", "expired", next_try_ms=200, expires_ms=100),
        "acked": sent_handle("/a/4", "acked", state=SentState.HANDED_OFF),
        "cancel": sent_handle("/a/5", "cancel", state=SentState.HANDED_OFF, cancelled_ms=5),
        "heard": sent_handle("/a/6", "heard", state=SentState.HANDED_OFF, cancelled_ms=5, cancel_acked=True),
        "closed": closed(sent_handle("/a/7", "closed")),
        "cancel-later": sent_handle("/a/8", "cancel-later", cancelled_ms=5, next_try_ms=150, expires_ms=1),
        "other": sent_handle("/a/9", "other", peer="mars"),
    }
    for handle in handles.values():
        insert_sent(tx, handle)

    def due(now_ms: int, limit: int = 99) -> list[str]:
        return [handle.nonce for handle in due_sent(tx, "moon", now_ms, limit)]

    assert due(49) == ["cancel"]
    assert due(50) == ["cancel", "delivery"]
    assert due(100) == ["cancel", "delivery", "expired"]
    assert due(150) == ["cancel", "delivery", "cancel-later", "expired"]
    assert due(200) == ["cancel", "delivery", "cancel-later", "later", "expired"]
    assert due(200, 2) == ["cancel", "delivery"]
    assert next_due_ms(tx, "moon") == 0
    tx.execute("DELETE FROM federated_jobs WHERE nonce = 'cancel'")
    assert next_due_ms(tx, "moon") == 50
    tx.execute("DELETE FROM federated_jobs WHERE nonce = 'delivery'")
    assert next_due_ms(tx, "moon") == 100
    tx.execute("DELETE FROM federated_jobs WHERE nonce = 'expired'")
    assert next_due_ms(tx, "moon") == 150
    assert next_due_ms(tx, "venus") is None


def test_open_handles_are_listed_and_counted_by_peer(tx: Tx) -> None:
    for number, peer in enumerate(("moon", "mars", "moon")):
        insert_sent(tx, sent_handle(f"/a/{number}", f"s{number}", peer))
    insert_sent(tx, closed(sent_handle("/a/9", "s9")))
    assert [handle.nonce for handle in open_sent(tx, "moon")] == ["s0", "s2"]
    assert count_open_sent(tx) == {"moon": 2, "mars": 1}


# --- received ---


def test_the_full_set_is_told_in_pages_without_the_superseded(tx: Tx) -> None:
    for number in range(5):
        add_received(tx, f"/a/hub.{number}", nonce=f"n{number}")
    add_received(tx, "/a/moon.x", nonce="m1", requester="moon")
    job = job_by_id(tx, "/a/hub.1")
    assert job is not None
    supersede_received(tx, replace(job, state=JobState.FAILED), 5)
    first = received_page(tx, "hub", 0, 2)
    rest = received_page(tx, "hub", first[-1][0], 9)
    assert [handle.nonce for _, handle in first + rest] == ["n0", "n2", "n3", "n4"]
    assert received_page(tx, "hub", rest[-1][0], 9) == []


def test_superseding_twice_keeps_the_first_end(tx: Tx) -> None:
    job = add_received(tx)
    supersede_received(tx, replace(job, state=JobState.FAILED, error="boom"), 5)
    supersede_received(tx, replace(job, state=JobState.SUCCEEDED), 9)
    handle = received_by_nonce(tx, "hub", "n1")
    assert handle is not None
    assert (handle.end_state, handle.end_error, handle.closed_ms) == (JobState.FAILED, "boom", 5)


# --- peers ---


def test_what_is_known_of_a_peer_survives_with_its_backends(tx: Tx) -> None:
    backend = BackendSummary(
        "local", "local", "local", capabilities=("logs",), attributes={"zone": ("a", "b")},
        availability=Availability(7, {"h100": 3}, {"h100": 8}), largest_node=NodeShape(1, 2, {"h100": 8}),
        worker_count=1, pending_task_count=2, running_task_count=3,
    )  # fmt: skip
    state = PeerState(
        peer="moon", cursor="5.x", database_id="db-9", full_set_done=True, last_contact_ms=1, lost_contact_ms=2,
        last_error="down", backends=(backend, replace(backend, availability=None, largest_node=None)), backends_ms=3,
    )  # fmt: skip
    save_peer(tx, state)
    assert load_peer(tx, "moon") == state
    emptied = replace(state, backends=(), lost_contact_ms=None, cursor="")
    save_peer(tx, emptied)
    assert load_peer(tx, "moon") == emptied
    assert load_peer(tx, "mars") == PeerState(peer="mars")
