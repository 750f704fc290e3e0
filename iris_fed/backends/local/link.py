"""A connection to the launcher that is always being restored; a new launcher where the old one died."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from iris_fed.backends.base import BackendUnavailable
from iris_fed.backends.local import client
from iris_fed.backends.local.client import ConnectionLost, LauncherClient
from iris_fed.backends.posix.files import Record

_FIRST_RETRY_S = 0.1
_MOST_RETRY_S = 5.0
_TRIES = 3

log = structlog.get_logger(__name__)


class LauncherLink:
    """`on_connected` runs on every new connection before anybody else may use it."""

    def __init__(
        self,
        state_dir: Path,
        idle_s: float,
        on_event: Callable[[Record], None],
        on_connected: Callable[[LauncherClient], Awaitable[None]],
    ) -> None:
        self._state_dir = state_dir
        self._idle_s = idle_s
        self._on_event = on_event
        self._on_connected = on_connected
        self._client: LauncherClient | None = None
        self._pid = 0
        self._lock = asyncio.Lock()
        self._restoring: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def pid(self) -> int:
        """Of the launcher last connected to; 0 before."""
        return self._pid

    async def connect(self) -> LauncherClient:
        """Raises BackendUnavailable."""
        async with self._lock:
            if self._is_closed:
                raise BackendUnavailable("the backend is closed")
            if self._client is not None and self._client.is_open:
                return self._client
            fresh, self._pid = await client.connect(self._state_dir, self._idle_s, self._on_event, self._lost)
            try:
                await self._on_connected(fresh)
            except BaseException:
                await fresh.close()
                raise
            self._client = fresh
            return fresh

    async def request(self, op: str, **fields: object) -> Record:
        """Asks again over a new connection should this one break: all requests are idempotent.

        Raises BackendUnavailable.
        """
        for _ in range(_TRIES - 1):
            try:
                return await (await self.connect()).request(op, **fields)
            except ConnectionLost:
                continue
        return await (await self.connect()).request(op, **fields)

    async def close(self) -> None:
        self._is_closed = True
        if self._restoring is not None:
            self._restoring.cancel()
            await asyncio.gather(self._restoring, return_exceptions=True)
        async with self._lock:
            if self._client is not None:
                await self._client.close()

    async def shut_down(self, timeout_s: float) -> bool:
        """End the launcher with all its attempts; True when it is gone in time."""
        try:
            current = await self.connect()
            self._is_closed = True
            await current.request("shutdown")
        except BackendUnavailable:
            return False
        finally:
            await self.close()
        return await asyncio.to_thread(client.wait_for_exit, self._pid, timeout_s)

    def _lost(self) -> None:
        client.collect(self._pid)
        if not self._is_closed and (self._restoring is None or self._restoring.done()):
            log.warning("launcher connection lost", launcher_pid=self._pid)
            self._restoring = asyncio.get_running_loop().create_task(self._restore())

    async def _restore(self) -> None:
        pause_s = _FIRST_RETRY_S
        while True:
            try:
                await self.connect()
                return
            except BackendUnavailable as error:
                log.error("launcher cannot be reached", error=str(error), retry_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _MOST_RETRY_S)
