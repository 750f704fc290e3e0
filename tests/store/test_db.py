"""One writer with group commit, readers on snapshots, and what a cancel or a full disk leaves behind."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from iris_fed.errors import ConfigError, ResourceExhausted, Unavailable
from iris_fed.store import db as db_module
from iris_fed.store.db import MAX_BATCH, Database, Tx
from tests.store.samples import NOON, add_local, add_received


@pytest.fixture
async def notes(db: Database) -> Database:
    await db.write(lambda tx: tx.execute("CREATE TABLE note (text TEXT NOT NULL UNIQUE, body BLOB)").fetchall())
    return db


def put(text: str, body: bytes = b"") -> Callable[[Tx], int]:
    def closure(tx: Tx) -> int:
        return int(tx.execute("INSERT INTO note VALUES (?, ?)", (text, body)).lastrowid or 0)

    return closure


def texts(tx: Tx) -> list[str]:
    return [row["text"] for row in tx.execute("SELECT text FROM note ORDER BY rowid")]


async def statements_of(db: Database) -> list[str]:
    seen: list[str] = []
    await db.alone(lambda tx: tx.set_trace_callback(seen.append))
    return seen


class Gate:
    """A closure that tells when it runs and goes on when it is let."""

    def __init__(self, inner: Callable[[Tx], object] = lambda tx: None) -> None:
        self._loop = asyncio.get_running_loop()
        self._inner = inner
        self.running = asyncio.Event()
        self.let_go = threading.Event()

    def __call__(self, tx: Tx) -> object:
        result = self._inner(tx)
        self._loop.call_soon_threadsafe(self.running.set)
        assert self.let_go.wait(20)
        return result


# --- group commit ---


async def test_writers_that_come_together_share_a_commit(notes: Database) -> None:
    seen = await statements_of(notes)
    rows = await asyncio.gather(*(notes.write(put(f"n{number}")) for number in range(MAX_BATCH * 2)))
    assert seen.count("COMMIT") <= 3
    assert rows == sorted(rows)
    assert await notes.read(texts) == [f"n{number}" for number in range(MAX_BATCH * 2)]


async def test_a_failing_closure_rolls_back_alone_and_its_neighbours_commit(notes: Database) -> None:
    def half(tx: Tx) -> None:
        put("half")(tx)
        raise ValueError("thought better of it")

    seen = await statements_of(notes)
    results = await asyncio.gather(
        notes.write(put("before")), notes.write(half), notes.write(put("before")), notes.write(put("after")),
        return_exceptions=True,
    )  # fmt: skip
    assert isinstance(results[1], ValueError)
    assert isinstance(results[2], sqlite3.IntegrityError)
    assert await notes.read(texts) == ["before", "after"]
    assert seen.count("COMMIT") == 1


async def test_a_closure_sees_what_those_before_it_wrote(notes: Database) -> None:
    _, seen = await asyncio.gather(notes.write(put("one")), notes.write(texts))
    assert seen == ["one"]


async def test_a_result_comes_only_when_the_row_is_durable(notes: Database) -> None:
    await notes.write(put("one"))
    other = sqlite3.connect(notes.path)
    assert other.execute("SELECT text FROM note").fetchall() == [("one",)]
    other.close()


async def test_whoever_waits_for_changes_is_woken_after_the_commit_and_only_for_those_that_hold(db: Database) -> None:
    told: list[tuple[frozenset[str], int]] = []

    def listener(requesters: frozenset[str]) -> None:
        other = sqlite3.connect(db.path)
        told.append((requesters, other.execute("SELECT count(*) FROM jobs").fetchone()[0]))
        other.close()

    db.on_changelog(listener)
    await db.write(lambda tx: add_local(tx, "/a/local"))
    assert not told
    await asyncio.gather(
        db.write(add_received),
        db.write(lambda tx: add_received(tx, "/a/moon.x", nonce="m1", requester="moon")),
    )
    assert told == [(frozenset({"hub", "moon"}), 3)]


async def test_too_many_waiting_writes_are_refused(notes: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db_module, "MAX_QUEUED_WRITES", 3)
    gate = Gate()
    first = asyncio.create_task(notes.write(gate))
    await gate.running.wait()
    waiting = [asyncio.create_task(notes.write(put(f"n{number}"))) for number in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(ResourceExhausted, match="too many writes"):
        await notes.write(put("one too many"))
    gate.let_go.set()
    await asyncio.gather(first, *waiting)
    assert await notes.read(texts) == ["n0", "n1", "n2"]


async def test_a_closure_that_lets_stop_iteration_out_fails_like_any_other(notes: Database) -> None:
    def exhausted(tx: Tx) -> object:
        return next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await notes.write(exhausted)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await notes.read(exhausted)
    await notes.write(put("still there"))
    assert await notes.read(texts) == ["still there"]


# --- cancelling whoever waits ---


async def is_sound(db: Database) -> None:
    assert not await db.alone(lambda tx: tx.in_transaction)
    await db.write(put("sound"))
    assert "sound" in await db.read(texts)


async def test_a_write_cancelled_in_the_queue_never_runs(notes: Database) -> None:
    gate = Gate()
    first = asyncio.create_task(notes.write(gate))
    await gate.running.wait()
    second, third = (asyncio.create_task(notes.write(put(text))) for text in ("second", "third"))
    await asyncio.sleep(0)
    second.cancel()
    gate.let_go.set()
    await asyncio.gather(first, third)
    with pytest.raises(asyncio.CancelledError):
        await second
    assert await notes.read(texts) == ["third"]
    await is_sound(notes)


async def test_a_write_cancelled_while_it_runs_is_committed_whole(notes: Database) -> None:
    gate = Gate(put("running"))
    task = asyncio.create_task(notes.write(gate))
    await gate.running.wait()
    neighbour = asyncio.create_task(notes.write(put("neighbour")))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.let_go.set()
    await neighbour
    assert await notes.read(texts) == ["running", "neighbour"]
    await is_sound(notes)


@pytest.mark.parametrize("moment", range(10))
async def test_a_write_cancelled_at_any_moment_is_done_whole_or_not_at_all(notes: Database, moment: int) -> None:
    def both(tx: Tx) -> None:
        put("left")(tx)
        put("right")(tx)

    task = asyncio.create_task(notes.write(both))
    for _ in range(moment):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await notes.write(put("later"))
    assert await notes.read(texts) in (["later"], ["left", "right", "later"])
    await is_sound(notes)


async def test_cancelled_reads_give_their_readers_back(notes: Database) -> None:
    gates = [Gate() for _ in range(db_module.READERS)]
    reads = [asyncio.create_task(notes.read(gate)) for gate in gates]
    for gate in gates:
        await gate.running.wait()
    waiting = asyncio.create_task(notes.read(texts))
    given_up = asyncio.create_task(notes.read(texts))
    await asyncio.sleep(0)
    for task in (*reads, given_up):
        task.cancel()
    for gate in gates:
        gate.let_go.set()
    results = await asyncio.gather(*reads, given_up, waiting, return_exceptions=True)
    assert [type(result) for result in results[:-1]] == [asyncio.CancelledError] * 3
    assert results[-1] == []
    await asyncio.gather(*(notes.read(texts) for _ in range(10)))


# --- reading ---


async def test_every_query_of_a_read_sees_the_same_state(notes: Database) -> None:
    await notes.write(put("old"))
    gate = Gate(texts)

    def twice(tx: Tx) -> tuple[object, list[str]]:
        return gate(tx), texts(tx)

    reading = asyncio.create_task(notes.read(twice))
    await gate.running.wait()
    await notes.write(put("new"))
    gate.let_go.set()
    assert await reading == (["old"], ["old"])
    assert await notes.read(texts) == ["old", "new"]


async def test_a_read_writes_nothing_and_its_failure_harms_no_other(notes: Database) -> None:
    for _ in range(5):
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            await notes.read(put("no"))
    assert await notes.read(texts) == []


# --- closing ---


async def test_closing_finishes_what_is_queued_and_takes_nothing_more(notes: Database) -> None:
    writes = [asyncio.create_task(notes.write(put(f"n{number}"))) for number in range(500)]
    await asyncio.sleep(0)
    await notes.close()
    await asyncio.gather(*writes)
    await notes.close()
    for late in (notes.write(put("late")), notes.read(texts)):
        with pytest.raises(Unavailable, match="shutting down"):
            await late
    left = sqlite3.connect(notes.path)
    assert left.execute("SELECT count(*) FROM note").fetchone() == (500,)
    left.close()


async def test_a_cancelled_close_goes_on_and_loses_no_write(notes: Database) -> None:
    gate = Gate(put("slow"))
    write = asyncio.create_task(notes.write(gate))
    await gate.running.wait()
    closing = asyncio.create_task(notes.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    gate.let_go.set()
    await write
    await notes.close()
    with pytest.raises(ValueError, match="Connection closed"):
        await notes.alone(texts)


# --- disks ---


async def limit_pages(db: Database, spare: int) -> None:
    def closure(tx: Tx) -> None:
        pages = tx.execute("PRAGMA page_count").fetchone()[0]
        tx.execute(f"PRAGMA max_page_count={pages + spare}").fetchall()

    await db.alone(closure)


async def test_on_a_full_disk_nothing_acknowledged_is_lost_and_it_recovers_with_space(notes: Database) -> None:
    await limit_pages(notes, 40)
    names = [f"n{number}" for number in range(60)]
    results = await asyncio.gather(*(notes.write(put(name, b"x" * 9_000)) for name in names), return_exceptions=True)
    kept = [name for name, result in zip(names, results, strict=True) if isinstance(result, int)]
    refused = [result for result in results if not isinstance(result, int)]
    assert kept
    assert refused
    assert {type(error) for error in refused} == {ResourceExhausted}
    assert "disk is full" in str(refused[0])
    assert await notes.read(texts) == kept
    with pytest.raises(ResourceExhausted):
        await notes.write(put("later", b"x" * 9_000))
    assert await notes.read(texts) == kept
    await limit_pages(notes, 1_000)
    await notes.write(put("later", b"x" * 9_000))
    assert await notes.read(texts) == [*kept, "later"]
    await is_sound(notes)


async def test_a_closure_that_fills_the_disk_leaves_none_of_itself(notes: Database) -> None:
    def greedy(tx: Tx) -> None:
        for number in range(100):
            put(f"g{number}", b"x" * 9_000)(tx)

    await limit_pages(notes, 20)
    results = await asyncio.gather(
        notes.write(put("a")), notes.write(greedy), notes.write(put("b")), return_exceptions=True
    )
    assert isinstance(results[1], ResourceExhausted)
    assert await notes.read(texts) == ["a", "b"]


async def test_a_database_on_a_full_disk_can_be_closed(notes: Database) -> None:
    await notes.write(lambda tx: tx.execute("CREATE INDEX note_by_body ON note (body)").fetchall())
    await asyncio.gather(*(notes.write(put(f"n{number}")) for number in range(2_000)))
    # Statistics on this index are missed by the query, so that closing wants to write some.
    await notes.write(lambda tx: tx.execute("SELECT * FROM note WHERE body = 'x'").fetchall())
    await limit_pages(notes, 0)
    await notes.close()
    with pytest.raises(Unavailable):
        await notes.write(put("late"))


async def test_a_database_that_cannot_be_written_says_so_and_changes_nothing(notes: Database) -> None:
    await notes.alone(lambda tx: tx.execute("PRAGMA query_only=ON").fetchall())
    with pytest.raises(Unavailable, match="cannot write its database"):
        await notes.write(put("no"))
    await notes.alone(lambda tx: tx.execute("PRAGMA query_only=OFF").fetchall())
    await is_sound(notes)


@pytest.mark.parametrize("inline", [False, True])
async def test_what_is_no_database_is_refused(tmp_path: Path, inline: bool) -> None:
    path = tmp_path / "letter.db"
    path.write_text("Dear Sir or Madam, " * 100)
    with pytest.raises(ConfigError, match="cannot open the database"):
        await Database.open(path, NOON, inline=inline)
    with pytest.raises(ConfigError, match="cannot open the database"):
        await Database.open(tmp_path, NOON, inline=inline)


async def test_an_inline_database_keeps_the_same_promises(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "inline.db", NOON, inline=True)
    await database.write(lambda tx: tx.execute("CREATE TABLE note (text TEXT UNIQUE, body BLOB)").fetchall())
    await asyncio.gather(
        database.write(put("a")), database.write(put("a")), database.write(put("b")), return_exceptions=True
    )
    assert await database.read(texts) == ["a", "b"]
    await database.close()


async def test_a_database_that_another_process_keeps_locked_is_said_to_be(
    notes: Database,
) -> None:
    await notes.alone(lambda tx: tx.execute("PRAGMA busy_timeout = 50").fetchall())
    other = sqlite3.connect(notes.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(Unavailable, match="another process keeps the controller's database locked"):
            await notes.write(put("waits"))
    finally:
        other.close()
    await notes.write(put("goes on"))
    assert await notes.read(texts) == ["goes on"]
