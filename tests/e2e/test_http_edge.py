"""The HTTP edge under hostile connections, over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from iris_fed.web import http_protocol
from iris_fed.web.http_protocol import BoundedHttpProtocol

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
async def _serving() -> AsyncIterator[int]:
    config = uvicorn.Config(_app, port=0, http=BoundedHttpProtocol, lifespan="off", log_config=None, ws="none")
    server = uvicorn.Server(config)
    server.config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        await server.shutdown()


async def _write_headers_for_ever(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"x-a: b\r\n" * 1024)
        await writer.drain()


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b"<reset>"


async def test_headers_without_end_close_the_connection() -> None:
    async with _serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(ConnectionError):
                await _write_headers_for_ever(writer)
        writer.close()
        assert b"200" not in await _read_to_end(reader)


@pytest.mark.parametrize(
    ("sent", "limit"),
    [
        (b"", "HEADERS_TIMEOUT_S"),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-", "HEADERS_TIMEOUT_S"),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc", "BODY_TIMEOUT_S"),
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
