"""One SQLite file: one writer with group commit, a few readers; a transaction is one closure.

A closure runs to its end on the database's thread, so cancelling whoever waits for it can never
leave a transaction open or half-applied; the caller may only not learn of the outcome. Closures
change nothing outside the database: the batch they share may be run again after a failed COMMIT.
"""

import asyncio
import contextlib
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from iris_fed.clock import Clock
from iris_fed.errors import ConfigError, ResourceExhausted, Unavailable
from iris_fed.store.changed_jobs import ChangedJobs
from iris_fed.store.connection import Channel, InlineChannel, ThreadChannel, connect_sqlite
from iris_fed.telemetry import get_logger

T = TypeVar("T")
Tx = sqlite3.Connection
Closure = Callable[[Tx], T]

MAX_BATCH = 256
"""Closures in one COMMIT: enough to pay for the fsync, short enough that nobody waits long."""
MAX_QUEUED_WRITES = 20_000
READERS = 2
"""More threads only fight over the interpreter lock."""

_SHUTTING_DOWN = "the controller is shutting down; try again"

log = get_logger(__name__)


class Database:
    """Open with `Database.open`. `read` and `write` take one closure each."""

    def __init__(self, path: Path, writer: Channel, readers: list[Channel], notes: set[str]) -> None:
        self.path = path
        self._writer = writer
        self._idle_readers = readers
        self._all_readers = list(readers)
        self._reader_slots = asyncio.Semaphore(len(readers))
        self._notes = notes
        self._queue: deque[tuple[Closure[object], asyncio.Future[object]]] = deque()
        self._queued = asyncio.Event()
        self._closing = False
        self._closed: asyncio.Task[None] | None = None
        self._changelog_listener: Callable[[frozenset[str]], None] = lambda requesters: None
        self._changed = ChangedJobs()
        self._jobs_listener: Callable[[Mapping[str, str], bool], None] = lambda roots, many: None
        self._commit_listener: Callable[[float, int], None] = lambda seconds, writes: None
        self._committer = asyncio.create_task(self._commit_loop(), name="database-writer")

    @classmethod
    async def open(cls, path: Path, clock: Clock, *, inline: bool = False) -> "Database":
        """Opens (creating if need be) without migrating. Raises ConfigError if it is no database."""
        notes: set[str] = set()

        def connect(query_only: bool) -> Callable[[], Tx]:
            return lambda: connect_sqlite(path, clock, notes, query_only=query_only)

        try:
            if inline:
                writer: Channel = InlineChannel(connect(False)())
                readers: list[Channel] = [InlineChannel(connect(True)())]
            else:
                writer = await ThreadChannel.open(connect(False))
                readers = [await ThreadChannel.open(connect(True)) for _ in range(READERS)]
        except sqlite3.Error as error:
            raise ConfigError(f"cannot open the database {path}: {error}") from error
        return cls(path, writer, readers, notes)

    def on_changelog(self, listener: Callable[[frozenset[str]], None]) -> None:
        """`listener` is told, after COMMIT, for which requesters the changelog grew."""
        self._changelog_listener = listener

    async def follow_jobs(self, listener: Callable[[Mapping[str, str], bool], None]) -> None:
        """`listener` is told, after COMMIT and before the writer hears of it, which root jobs' trees may have
        changed: as `ChangedJobs.take` gives it. Once, after the migrations."""
        await self._writer.run(self._changed.install)
        self._jobs_listener = listener

    def on_commit(self, listener: Callable[[float, int], None]) -> None:
        """`listener` is told how many seconds each transaction took, and how many writes were in it."""
        self._commit_listener = listener

    @property
    def queued_writes(self) -> int:
        """How many wait for their transaction."""
        return len(self._queue)

    async def write(self, closure: Closure[T]) -> T:
        """Run `closure` in a transaction; returns its result once it is durable.

        What the closure raises is raised here, with its changes rolled back. Raises
        ResourceExhausted when the disk is full or too many writes wait, Unavailable when closed.
        """
        if self._closing:
            raise Unavailable(_SHUTTING_DOWN)
        if len(self._queue) >= MAX_QUEUED_WRITES:
            raise ResourceExhausted("too many writes are waiting for the disk; try again later")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append((closure, future))  # type: ignore[arg-type]
        self._queued.set()
        return await future

    async def read(self, closure: Closure[T]) -> T:
        """Run `closure` on a read snapshot: every query in it sees the same state.

        Raises what it raises, and Unavailable when closed."""
        async with self._reader_slots:
            if self._closing:
                raise Unavailable(_SHUTTING_DOWN)
            reader = self._idle_readers.pop()
            try:
                return await asyncio.shield(asyncio.ensure_future(reader.run(lambda tx: _in_snapshot(tx, closure))))
            finally:
                # A cancelled read still runs on the reader's thread; the next one queues behind it.
                self._idle_readers.append(reader)

    async def alone(self, work: Closure[T]) -> T:
        """Run `work` on the write connection outside any transaction: it manages its own. For
        migrations, before anything else writes."""
        return await self._writer.run(work)

    async def checkpoint(self) -> None:
        """Move the write-ahead log into the database file and empty it, unless a reader is in the way."""
        await self.alone(_checkpoint)

    async def close(self) -> None:
        """Finish what is queued, then close. Safe to call twice; it goes on when its caller is cancelled."""
        if self._closed is None:
            self._closing = True
            self._queued.set()
            self._closed = asyncio.create_task(self._finish(), name="database-close")
        await asyncio.shield(self._closed)

    async def _finish(self) -> None:
        await self._committer
        with contextlib.suppress(sqlite3.Error):  # It may write, and the disk may be full.
            await self._writer.run(lambda tx: tx.execute("PRAGMA optimize").fetchall())
        for channel in (*self._all_readers, self._writer):
            await channel.close()

    async def _commit_loop(self) -> None:
        while self._queue or not self._closing:
            if not self._queue:
                self._queued.clear()
                await self._queued.wait()
                continue
            batch: list[tuple[Closure[object], asyncio.Future[object]]] = []
            while self._queue and len(batch) < MAX_BATCH:
                closure, future = self._queue.popleft()
                if not future.cancelled():
                    batch.append((closure, future))
            if not batch:
                continue
            closures, began = [closure for closure, _ in batch], time.perf_counter()
            try:
                outcomes, notes = await self._writer.run(lambda tx: self._run_batch(tx, closures))  # noqa: B023
            except Exception as error:
                log.error("database.writer_failed", exc_info=error)
                outcomes, notes = [_Failed(error)] * len(batch), frozenset()
            self._commit_listener(time.perf_counter() - began, len(batch))
            self._tell_jobs()
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                _settle(future, outcome)
            if notes:
                self._changelog_listener(notes)

    def _tell_jobs(self) -> None:
        roots, many = self._changed.take()
        if roots or many:
            self._jobs_listener(roots, many)

    def _run_batch(self, tx: Tx, closures: list[Closure[object]]) -> tuple[list[object], frozenset[str]]:
        self._notes.clear()
        outcomes = _commit_together(tx, closures)
        if outcomes is None:
            outcomes = [_commit_alone(tx, closure) for closure in closures]
        return outcomes, frozenset(self._notes)


class _Failed:
    """A closure's exception, kept apart from results (which may be exceptions' cousins)."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _commit_together(tx: Tx, closures: list[Closure[object]]) -> list[object] | None:
    """One COMMIT for all; a failing closure rolls back alone. None: the batch is undone, go one by one."""
    outcomes: list[object] = []
    try:
        tx.execute("BEGIN IMMEDIATE")
        for closure in closures:
            tx.execute("SAVEPOINT closure")
            try:
                outcomes.append(closure(tx))
            except Exception as error:
                if not tx.in_transaction:
                    # SQLite itself rolled everything back (full disk, I/O error).
                    return None
                tx.execute("ROLLBACK TO closure")
                outcomes.append(_Failed(error))
            tx.execute("RELEASE closure")
        tx.execute("COMMIT")
    except sqlite3.Error:
        if tx.in_transaction:
            tx.execute("ROLLBACK")
        return None
    return outcomes


def _commit_alone(tx: Tx, closure: Closure[object]) -> object:
    try:
        tx.execute("BEGIN IMMEDIATE")
        result = closure(tx)
        tx.execute("COMMIT")
        return result
    except Exception as error:
        if tx.in_transaction:
            tx.execute("ROLLBACK")
        return _Failed(error)


def _checkpoint(tx: Tx) -> None:
    """Without waiting for a reader (a backup may read for long): all writes would wait with it."""
    (patience_ms,) = tx.execute("PRAGMA busy_timeout").fetchone()
    tx.execute("PRAGMA busy_timeout=0")
    try:
        tx.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        tx.execute(f"PRAGMA busy_timeout={patience_ms}")


def _in_snapshot(tx: Tx, closure: Closure[T]) -> T:
    tx.execute("BEGIN")
    try:
        return closure(tx)
    except StopIteration as error:
        raise _leaked(error) from error
    finally:
        tx.execute("COMMIT")


def _settle(future: "asyncio.Future[object]", outcome: object) -> None:
    if future.cancelled():
        return
    if isinstance(outcome, _Failed):
        future.set_exception(_translate(outcome.error))
    else:
        future.set_result(outcome)


def _translate(error: BaseException) -> BaseException:
    if isinstance(error, sqlite3.OperationalError):
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            return ResourceExhausted("the controller's disk is full: nothing was changed; free space and try again")
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return Unavailable("another process keeps the controller's database locked; nothing was changed; try again")
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            return Unavailable(f"the controller cannot write its database ({error}); nothing was changed")
    return _leaked(error) if isinstance(error, StopIteration) else error


def _leaked(error: StopIteration) -> RuntimeError:
    """What generators do too: a future cannot raise StopIteration, and its waiter would wait for ever."""
    return RuntimeError(f"a closure let StopIteration out: {error}")
