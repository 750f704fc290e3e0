"""Connections to SQLite, set up as ours all are, and the channels on which closures run."""

import asyncio
import secrets
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

import aiosqlite

from iris_fed.clock import Clock

T = TypeVar("T")
Tx = sqlite3.Connection


class Channel(Protocol):
    """Where closures on one connection run: a thread of their own, or inline in a simulation."""

    async def run(self, work: Callable[[Tx], T]) -> T: ...

    async def close(self) -> None: ...


class ThreadChannel:
    """A connection on aiosqlite's thread."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, connect: Callable[[], Tx]) -> "ThreadChannel":
        connection = aiosqlite.Connection(connect, iter_chunk_size=64)
        try:
            return cls(await connection)
        except sqlite3.Error:
            # Its thread answers the loop once more on its way out: let it, while there is a loop.
            await asyncio.to_thread(connection._thread.join)
            raise

    async def run(self, work: Callable[[Tx], T]) -> T:
        # aiosqlite has no public way to run a closure on its thread; `_execute` is what all of its
        # public methods are made of.
        connection = self._connection
        result: T = await connection._execute(lambda: work(connection._conn))  # type: ignore[no-untyped-call]
        return result

    async def close(self) -> None:
        await self._connection.close()


class InlineChannel:
    """A connection used right here, without a thread: a simulation replays exactly."""

    def __init__(self, connection: Tx) -> None:
        self._connection = connection

    async def run(self, work: Callable[[Tx], T]) -> T:
        return work(self._connection)

    async def close(self) -> None:
        self._connection.close()


def connect_sqlite(path: Path, clock: Clock, notes: set[str], *, query_only: bool = False) -> Tx:
    """A connection set up as ours all are. Requesters whose changelog grows are added to `notes`."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=512)
    try:
        _set_up(connection, clock, notes, query_only=query_only)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: Tx, clock: Clock, notes: set[str], *, query_only: bool) -> None:
    connection.row_factory = sqlite3.Row

    def changelog_stamp(requester: str) -> str:
        notes.add(requester)
        return secrets.token_hex(8)

    connection.create_function("changelog_stamp", 1, changelog_stamp)
    connection.create_function("now_ms", 0, clock.now_ms)
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "recursive_triggers=ON",
        "busy_timeout=5000",
        "temp_store=MEMORY",
        "secure_delete=ON",
        "journal_size_limit=67108864",
    ):
        connection.execute(f"PRAGMA {pragma}")
    if query_only:
        connection.execute("PRAGMA query_only=ON")
