"""What goes from the changelog, what stays, and that no cursor is believed across a gap."""

from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from iris_fed.store import changelog_prune
from iris_fed.store.changelog import Cursor, changes_after, cursor_at, is_current, newest_cursor, touch
from iris_fed.store.changelog_prune import bound_of, remove_superseded, remove_up_to, requesters_with_rows
from iris_fed.store.connection import Tx, connect_sqlite
from iris_fed.store.migrate import load_migrations, migrate
from iris_fed.store.requesters import Heard, load_requester, raise_pruned, save_heard

DB = "db-1"


class Hand:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def tx(tmp_path: Path, clock: Hand) -> Iterator[Tx]:
    connection = connect_sqlite(tmp_path / "c.db", clock, set())
    migrate(connection, load_migrations(), 1)
    yield connection
    connection.close()


def write(tx: Tx, *jobs: str, requester: str = "hub") -> list[Cursor]:
    """A row about each of the jobs, in that order; the cursors that name them."""
    for job in jobs:
        touch(tx, requester, f"nonce-{job}", f"/a/{requester}.{job}")
    last = newest_cursor(tx, DB).seq
    return [cursor_at(tx, seq) for seq in range(last - len(jobs) + 1, last + 1)]


def left(tx: Tx) -> list[int]:
    return [row["seq"] for row in tx.execute("SELECT seq FROM federation_changelog ORDER BY seq")]


def superseded(tx: Tx, before_ms: int = 2_000, told: Collection[int] = (), limit: int = 100) -> list[int]:
    """Sequences left once everything was looked at."""
    done, before = 0, -1
    while done != before:
        done, before = remove_superseded(tx, done, before_ms, told, limit), done
    return left(tx)


def read_by(tx: Tx, **acked: int) -> None:
    save_heard(tx, {requester: Heard(seq, seq, 5) for requester, seq in acked.items()})


# --- rows that a later one repeats ---


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_of_rows_about_the_same_only_the_last_stays_and_no_cursor_suffers(tx: Tx, limit: int) -> None:
    first, *_ = write(tx, "x", "y", "x", "x", "z", "y")
    assert superseded(tx, limit=limit) == [4, 5, 6]
    assert load_requester(tx, "hub").pruned_seq == 0
    assert [change.seq for change in changes_after(tx, "hub", first.seq, 10)] == [4, 5, 6]


def test_rows_of_other_tasks_incarnations_and_requesters_repeat_nothing(tx: Tx) -> None:
    for nonce, job, task in (("n1", "/a/hub.x", None), ("n2", "/a/hub.x", None), ("n1", "/a/hub.x", 0)):
        touch(tx, "hub", nonce, job)
        tx.execute("UPDATE federation_changelog SET task_index = ? WHERE seq = last_insert_rowid()", (task,))
    touch(tx, "hub", "n1", "/a/hub.x/child")
    touch(tx, "moon", "n1", "/a/hub.x")
    assert superseded(tx) == [1, 2, 3, 4, 5]


def test_a_row_stays_while_the_one_that_repeats_it_is_young(tx: Tx, clock: Hand) -> None:
    write(tx, "x", "x")
    clock.ms = 3_000
    write(tx, "x", "x")
    assert superseded(tx, before_ms=3_000) == [2, 3, 4]
    assert superseded(tx, before_ms=3_001) == [4]


def test_a_repeated_row_that_a_cursor_names_stays(tx: Tx) -> None:
    write(tx, "x", "x", "x", "x")
    read_by(tx, moon=2)
    assert superseded(tx, told=[1]) == [1, 2, 4]


def test_what_was_looked_at_is_not_looked_at_again(tx: Tx) -> None:
    write(tx, "x", "y", "x")
    assert remove_superseded(tx, 0, 2_000, (), 2) == 2
    assert remove_superseded(tx, 2, 2_000, (), 2) == 3
    assert remove_superseded(tx, 3, 2_000, (), 2) == 3
    assert left(tx) == [2, 3]


def test_repeated_rows_are_found_by_index_however_many_others_there_are(tx: Tx) -> None:
    plan = [row["detail"] for row in tx.execute(f"EXPLAIN QUERY PLAN {changelog_prune._REPEATED}", (0, 1))]
    assert any("federation_changelog_by_subject (requester=? AND nonce=?" in step for step in plan)
    assert not any(step.startswith(("SCAN old", "SCAN federation_changelog")) for step in plan)


# --- rows that were read, or that nobody comes for ---


def remove_due(tx: Tx, requester: str = "hub", before_ms: int = 0, told: Collection[int] = (), limit: int = 100) -> int:
    return remove_up_to(tx, requester, bound_of(tx, requester, before_ms), told, limit)


def test_what_a_requester_has_read_goes_but_the_row_that_its_cursor_names(tx: Tx) -> None:
    cursors = write(tx, "a", "b", "c", "d")
    read_by(tx, hub=3)
    assert remove_due(tx) == 2
    assert left(tx) == [3, 4]
    assert [is_current(tx, cursor, "hub", DB) for cursor in cursors] == [False, False, True, True]
    assert remove_due(tx) == 0


def test_each_requesters_rows_go_by_its_own_cursor(tx: Tx) -> None:
    write(tx, "a", "b")
    write(tx, "a", "b", requester="moon")
    read_by(tx, moon=4)
    assert remove_due(tx) == 0
    assert remove_due(tx, "moon") == 1
    assert left(tx) == [1, 2, 4]


def test_the_newest_row_of_all_stays_though_it_was_read(tx: Tx) -> None:
    write(tx, "a", "b")
    read_by(tx, hub=2)
    write(tx, "a", requester="moon")
    read_by(tx, hub=3, moon=3)
    assert remove_due(tx) == 2
    assert remove_due(tx, "moon") == 0
    assert newest_cursor(tx, DB).seq == 3


def test_nothing_goes_of_a_requester_that_never_came_before_its_time(tx: Tx) -> None:
    write(tx, "a", "b")
    assert remove_due(tx) == 0
    assert load_requester(tx, "hub").acked_seq is None


def test_what_is_too_old_goes_unread_and_the_cursors_before_it_are_stale(tx: Tx, clock: Hand) -> None:
    early = write(tx, "a", "b")
    clock.ms = 5_000
    late = write(tx, "c", "d")
    read_by(tx, hub=1)
    assert remove_due(tx, before_ms=5_000) == 1
    assert left(tx) == [1, 3, 4]
    assert [is_current(tx, cursor, "hub", DB) for cursor in (*early, *late)] == [False, False, True, True]


def test_when_all_is_too_old_the_newest_row_is_left(tx: Tx) -> None:
    write(tx, "a", "b", "c")
    assert remove_due(tx, before_ms=5_000) == 2
    assert left(tx) == [3]


def test_of_one_requester_only_so_many_unread_rows_are_kept(tx: Tx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog_prune, "MAX_ROWS", 2)
    write(tx, "a", "b", "c", "d")
    write(tx, "a", requester="moon")
    assert remove_due(tx) == 2
    assert left(tx) == [3, 4, 5]


def test_a_transaction_removes_no_more_than_it_was_told(tx: Tx) -> None:
    cursors = write(tx, *"abcdef")
    read_by(tx, hub=6)
    assert remove_due(tx, limit=2) == 2
    assert load_requester(tx, "hub").pruned_seq == 2
    assert is_current(tx, cursors[2], "hub", DB)
    assert remove_due(tx, limit=2) == 2
    assert remove_due(tx, limit=2) == 1


def test_an_old_cursor_is_stale_although_its_row_stands_because_another_cursor_names_it(tx: Tx) -> None:
    old, *_ = write(tx, "a", "b", "c")
    read_by(tx, moon=old.seq, hub=3)
    remove_due(tx)
    assert old.seq in left(tx)
    assert not is_current(tx, old, "hub", DB)
    assert is_current(tx, old, "moon", DB)


def test_the_row_of_a_cursor_that_was_only_just_told_stays(tx: Tx) -> None:
    write(tx, "a", "b", "c")
    read_by(tx, hub=3)
    assert remove_due(tx, told=[2]) == 1
    assert left(tx) == [2, 3]


def test_the_place_before_the_first_row_is_stale_once_news_is_gone(tx: Tx) -> None:
    assert is_current(tx, Cursor(0, DB), "hub", DB)
    raise_pruned(tx, "hub", 1)
    assert not is_current(tx, Cursor(0, DB), "hub", DB)
    assert is_current(tx, Cursor(0, DB), "moon", DB)


# --- what is remembered of a requester ---


def test_an_acknowledged_cursor_may_go_back_and_what_is_gone_stays_gone(tx: Tx) -> None:
    read_by(tx, hub=9)
    raise_pruned(tx, "hub", 7)
    read_by(tx, hub=4)
    raise_pruned(tx, "hub", 3)
    state = load_requester(tx, "hub")
    assert (state.acked_seq, state.pruned_seq) == (4, 7)


def test_a_request_that_acknowledges_nothing_leaves_what_was_acknowledged(tx: Tx) -> None:
    read_by(tx, hub=9)
    save_heard(tx, {"hub": Heard(None, 12, 77)})
    assert load_requester(tx, "hub").acked_seq == 9
    assert tx.execute("SELECT last_sync_ms FROM federation_requesters").fetchone()["last_sync_ms"] == 77


def test_requesters_are_told_apart(tx: Tx) -> None:
    assert requesters_with_rows(tx) == []
    write(tx, "a", "b")
    write(tx, "a", requester="moon")
    write(tx, "a", requester="earth")
    assert requesters_with_rows(tx) == ["earth", "hub", "moon"]
