"""A TCP relay between two real clusters, which an operator of bad luck holds in his hands."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

CALL_LIMIT_S = 10.0
CHUNK = 65_536


class Mode(StrEnum):
    """PASS: as a wire. REFUSE: nobody listens, and what is open breaks. DELAY: bytes come late. HALF_OPEN:
    bytes are taken and go nowhere. MUTE: requests arrive, answers do not."""

    PASS = "PASS"
    REFUSE = "REFUSE"
    DELAY = "DELAY"
    HALF_OPEN = "HALF_OPEN"
    MUTE = "MUTE"


@dataclass(slots=True)
class _Pipe:
    """One connection: its two tasks and writers."""

    tasks: list[asyncio.Task[None]]
    writers: list[asyncio.StreamWriter]


class Relay:
    """Forwards to 127.0.0.1:`target_port`, in a thread of its own; used from another one."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._mode = Mode.PASS
        self._delay_s = 0.0
        self._open: dict[int, _Pipe] = {}
        self._count = 0
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._thread.start()
        self.port = 0
        self._do(self._listen())

    def become(self, mode: Mode, delay_s: float = 0.0) -> None:
        """From now on, for open connections too."""
        self._do(self._become(mode, delay_s))

    def cut(self) -> None:
        """Break every open connection; new ones pass."""
        self._do(self._cut())

    def close(self) -> None:
        self._do(self._become(Mode.REFUSE, 0.0))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_LIMIT_S)
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_LIMIT_S)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _become(self, mode: Mode, delay_s: float) -> None:
        self._mode, self._delay_s = mode, delay_s
        if mode is Mode.REFUSE:
            if self._server is not None:
                self._server.close()
                self._server = None
            await self._cut()
        elif self._server is None:
            await self._listen()

    async def _cut(self) -> None:
        pipes = list(self._open.values())
        self._open.clear()
        for pipe in pipes:
            for writer in pipe.writers:
                writer.transport.abort()
            for task in pipe.tasks:
                task.cancel()
        await asyncio.gather(*(task for pipe in pipes for task in pipe.tasks), return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.transport.abort()
            return
        self._count += 1
        number = self._count
        tasks = [
            asyncio.create_task(self._pump(number, reader, far_writer, answers=False)),
            asyncio.create_task(self._pump(number, far_reader, writer, answers=True)),
        ]
        self._open[number] = _Pipe(tasks, [writer, far_writer])

    async def _pump(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if self._mode is Mode.HALF_OPEN or (self._mode is Mode.MUTE and answers):
                    continue
                if self._mode is Mode.DELAY:
                    await asyncio.sleep(self._delay_s)
                writer.write(data)
                await writer.drain()
        writer.close()
        if answers:
            self._open.pop(number, None)
