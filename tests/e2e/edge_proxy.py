"""A proxy on loopback that lets nobody through without a token in Proxy-Authorization, as Google IAP does."""

import asyncio
import re
import threading
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit

HEADER = re.compile(rb"\r\nproxy-authorization: *bearer ([^\r\n]*)", re.IGNORECASE)
GOOGLE = re.compile(rb"\r\nx-goog-[^\r\n]*", re.IGNORECASE)
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
REFUSAL = b"Invalid IAP credentials: Unable to parse JWT"


class EdgeProxy:
    """Forwards to the controller at `upstream` (an http URL) whoever shows one of `accepted`; one request for each
    connection. The header stops here. `refused` counts."""

    def __init__(self, upstream: str, *accepted: str) -> None:
        self._host, self._port = urlsplit(upstream).hostname, urlsplit(upstream).port
        self.accepted = set(accepted)
        self.passed = 0
        self.refused = 0
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._under_way: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        try:
            # Whoever is cut off is no concern of the proxy's.
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
        finally:
            self._under_way.discard(task)
            writer.close()

    def adds(self, token: str) -> bytes:
        """Header lines for the controller, of whoever showed `token`."""
        return b""

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        shown = HEADER.search(head)
        if shown is None or shown[1].decode() not in self.accepted:
            self.refused += 1
            await self._refuse(head, reader, writer)
            return
        self.passed += 1
        upstream, sink = await asyncio.open_connection(self._host, self._port)
        try:
            line, _, rest = HEADER.sub(b"", GOOGLE.sub(b"", head)).partition(b"\r\n")
            sink.write(line + b"\r\nconnection: close\r\n" + self.adds(shown[1].decode()) + rest)
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(_copy(reader, sink))
                await _copy(upstream, writer)
                sending.cancel()
        finally:
            sink.close()

    async def _refuse(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The body is taken, so that closing does not cut the answer off.
        if length := LENGTH.search(head):
            await reader.readexactly(int(length[1]))
        elif b"chunked" in head.lower():
            await reader.readuntil(b"0\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-type: text/html; charset=utf-8\r\nconnection: close\r\n")
        writer.write(b"content-length: %d\r\n\r\n" % len(REFUSAL) + REFUSAL)
        await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65_536):
        writer.write(piece)
        await writer.drain()
