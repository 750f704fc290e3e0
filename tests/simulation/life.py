"""One process of a controller, from its start to its end: asked to stop, or cut off at any step."""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable
from contextvars import Context, copy_context
from pathlib import Path

from iris_fed.config.settings import Settings
from iris_fed.server.compose import Controller, Parts, running_controller
from iris_fed.store.opening import DATABASE_NAME
from tests.simulation.engine import SeveredBackend
from tests.simulation.serving import Answer, Carried, ask
from tests.simulation.world import Mortal, running_as

WAL_INDEX_HEADER_BYTES = 48
"""Changes with every commit (https://www.sqlite.org/walformat.html, "WAL-Index File Format")."""
GRACE_S = 2.0


class Observer:
    """Reads what a living controller has committed, and tells cheaply whether there is something new."""

    def __init__(self, state_dir: Path) -> None:
        path = state_dir / DATABASE_NAME
        self._connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        self.rows("SELECT 1 FROM cluster_meta")
        self._index = os.open(f"{path}-shm", os.O_RDONLY)
        self._header = b""

    def rows(self, sql: str, *values: object) -> list[sqlite3.Row]:
        return self._connection.execute(sql, values).fetchall()

    def database_ids(self) -> set[str]:
        """The id of this database, and of those it was restored from."""
        meta = {row["key"]: row["value"] for row in self.rows("SELECT key, value FROM cluster_meta")}
        return {meta["database_id"], *meta.get("ancestor_ids", "").split(",")}

    def has_news(self) -> bool:
        header = os.pread(self._index, WAL_INDEX_HEADER_BYTES, 0)
        if header == self._header:
            return False
        self._header = header
        return True

    def close(self) -> None:
        self._connection.close()
        os.close(self._index)


class Life(Mortal):
    """`on_ready` is told once it serves, `on_end` when it is over, with what it raised."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        url: str,
        make_parts: Callable[["Life"], Parts],
        on_ready: Callable[["Life"], None],
        on_end: Callable[["Life", BaseException | None], None],
    ) -> None:
        self.name = name
        self.state_dir = settings.state_dir
        self.controller: Controller | None = None
        self.observer: Observer | None = None
        self.backends: list[SeveredBackend] = []
        self._stopping = asyncio.Event()
        self._requests: dict[asyncio.Task[Answer], None] = {}
        self._on_ready = on_ready
        self._context = self._own_context()
        loop = asyncio.get_running_loop()
        run = self._run(settings, url, make_parts(self))
        self.task = loop.create_task(run, name=f"controller {name}", context=self._context)
        self.task.add_done_callback(lambda task: on_end(self, None if task.cancelled() else task.exception()))

    @property
    def serves(self) -> bool:
        return self.controller is not None and not self.dead and not self._stopping.is_set()

    def serve(self, request: Carried) -> "asyncio.Task[Answer]":
        """The answer comes with the task; it is cancelled when this process ends first."""
        assert self.controller is not None
        work = ask(self.controller.asgi, request)
        task = asyncio.get_running_loop().create_task(work, name=str(request), context=self._context.copy())
        self._requests[task] = None
        task.add_done_callback(self._answered)
        return task

    def stop(self) -> None:
        """As on SIGTERM."""
        self._stopping.set()

    def crash(self) -> None:
        """As by kill -9: first nothing has an effect any more, then nothing runs any more."""
        self.sever()
        for task in self._requests:
            task.cancel()
        self.task.cancel()

    def sever(self) -> None:
        self.dead = True
        for backend in self.backends:
            backend.sever()
        if self.observer is not None:
            self.observer.close()
            self.observer = None

    async def _run(self, settings: Settings, url: str, parts: Parts) -> None:
        async with running_controller(settings, url, parts) as controller:
            self.controller = controller
            self.observer = Observer(settings.state_dir)
            self._on_ready(self)
            await self._stopping.wait()
            controller.feed.stop()
            if self._requests:
                await asyncio.wait(list(self._requests), timeout=GRACE_S)
            for task in self._requests:
                task.cancel()

    def _answered(self, task: "asyncio.Task[Answer]") -> None:
        del self._requests[task]
        with contextlib.suppress(asyncio.CancelledError):
            task.exception()

    def _own_context(self) -> Context:
        context = copy_context()
        context.run(running_as.set, self)
        return context
