"""The HTTP edge under hostile connections, over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast

import psutil
import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from iris_fed.web import http_protocol
from iris_fed.web.connections import Connections
from iris_fed.web.http_protocol import BoundedHttpProtocol, bounded_by

PATIENCE_S = 20.0


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    body = b""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message.get("body", b"")
        more = message.get("more_body", False)
    await PlainTextResponse(f"read {len(body)}")(scope, receive, send)


@asynccontextmanager
async def _serving(room: Connections | None = None) -> AsyncIterator[int]:
    http = bounded_by(room or Connections())
    config = uvicorn.Config(_app, port=0, http=http, lifespan="off", log_config=None, ws="none")
    server = uvicorn.Server(config)
    server.config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        await server.shutdown()


async def _write_for_ever(writer: asyncio.StreamWriter, piece: bytes) -> None:
    while True:
        writer.write(piece * (8192 // len(piece)))
        await writer.drain()


async def _head(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        return await reader.readuntil(b"\r\n\r\n")


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b"<reset>"


POST = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
FLOODS = {
    "headers": (POST, b"x-a: b\r\n"),
    "one header": (POST + b"x-a: ", b"b" * 1024),
    "the request line": (b"GET /", b"a" * 1024),
    "trailers": (CHUNKED + b"0\r\n", b"x-a: b\r\n"),
    "one trailer": (CHUNKED + b"0\r\nx-a: ", b"b" * 1024),
    "a chunk's extension": (CHUNKED + b"1;a=", b"b" * 1024),
    "chunks that hold next to nothing": (CHUNKED, b"1\r\na\r\n"),
}


@pytest.mark.parametrize("what", FLOODS)
async def test_what_never_ends_costs_its_connection_and_no_memory(what: str) -> None:
    first, piece = FLOODS[what]
    async with _serving() as port:
        before = psutil.Process().memory_info().rss
        for _ in range(8):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(first)
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(ConnectionError):
                    await _write_for_ever(writer, piece)
            writer.close()
            assert b"200" not in await _read_to_end(reader)
        assert psutil.Process().memory_info().rss - before < 16 * 1024 * 1024


async def test_one_connection_too_many_of_an_address_is_told_so_and_one_that_ends_makes_room() -> None:
    async with _serving(Connections(most=3, per_address=2)) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for reader, writer in held:
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200 OK" in await _head(reader)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answer = await _read_to_end(reader)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"too many connections" in answer
        writer.close()
        held[0][1].write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        await _read_to_end(held[0][0])
        held[0][1].close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in await _head(reader)
        writer.close()
        held[1][1].close()


@pytest.mark.parametrize(
    ("sent", "limit"),
    [
        (b"", "HEADERS_TIMEOUT_S"),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-", "HEADERS_TIMEOUT_S"),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc", "BODY_ROUND_S"),
    ],
)
async def test_a_request_that_never_arrives_is_given_up(
    sent: bytes, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, limit, 0.05)
    async with _serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        assert b"200" not in await _read_to_end(reader)
        writer.close()


class Line(asyncio.Transport):
    """A connection whose bytes and rounds a test deals out itself."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 9), "sockname": ("127.0.0.1", 8)})
        self.is_cut = False
        self._loop = asyncio.get_running_loop()
        self._timers: list[asyncio.TimerHandle] = []
        config = uvicorn.Config(_app, http=bounded_by(Connections()), lifespan="off", log_config=None, ws="none")
        config.load()
        make = cast("type[BoundedHttpProtocol]", config.http_protocol_class)
        self.protocol = make(config, ServerState(), {}, cast("Any", self))
        self.protocol.connection_made(self)

    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(delay, callback, args, self._loop)
        self._timers.append(timer)
        return timer

    def create_task(self, coroutine: Coroutine[Any, Any, Any], **_: object) -> asyncio.Task[Any]:
        return self._loop.create_task(coroutine)

    def round_ends(self) -> None:
        (timer,) = [one for one in self._timers if not one.cancelled()]
        self._timers.clear()
        timer._run()

    def abort(self) -> None:
        self.is_cut = True

    def close(self) -> None:
        self.is_cut = True

    def cut(self) -> bool:
        return self.is_cut

    def is_closing(self) -> bool:
        return self.is_cut

    def write(self, data: bytes | bytearray | memoryview) -> None:
        raise AssertionError("nothing is answered before the body is there")

    def pause_reading(self) -> None:
        return

    def resume_reading(self) -> None:
        return


async def test_a_body_has_its_time_as_long_as_it_comes_at_a_rate() -> None:
    line = Line()
    owed = int(http_protocol.BODY_ROUND_S * http_protocol.BODY_BYTES_PER_S)
    line.protocol.data_received(POST + b"Content-Length: 1000000000\r\n\r\n")
    for _ in range(20):
        line.protocol.data_received(b"x" * owed)
        line.protocol.flow.resume_reading()
        line.round_ends()
        assert not line.cut()
    # While it is we who do not read on, nothing is owed.
    line.protocol.flow.pause_reading()
    line.round_ends()
    assert not line.cut()
    line.protocol.flow.resume_reading()
    line.protocol.data_received(b"x" * (owed - 1))
    line.protocol.flow.resume_reading()
    line.round_ends()
    assert line.cut()
    line.protocol.connection_lost(None)


async def test_requests_that_follow_each_other_on_one_connection_are_not_counted_together() -> None:
    async with _serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        filler = b"x" * 40_000
        for _ in range(4):
            writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nx-f: " + filler + b"\r\nContent-Length: 3\r\n\r\nabc")
            async with asyncio.timeout(PATIENCE_S):
                head = await reader.readuntil(b"\r\n\r\n")
                assert b"200 OK" in head
                assert await reader.readexactly(6) == b"read 3"
        writer.close()
