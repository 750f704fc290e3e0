"""What stands between a client and a controller: its words are never taken for the controller's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from connectrpc.code import Code
from connectrpc.errors import ConnectError

from iris_fed.client import Client
from iris_fed.errors import PermissionDenied, Unavailable, Unimplemented
from iris_fed.rpc.connect_client import Channel
from iris_fed.rpc.foreign import ForeignAnswer
from iris_fed.rpc.gen.irisfed.cluster_pb2 import GetClusterInfoRequest


@asynccontextmanager
async def _answering(response: bytes | None) -> AsyncIterator[str]:
    """The URL of something that gives every request this answer; None = it never answers."""
    forever = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if response is None:
            await forever.wait()
        else:
            writer.write(response)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        forever.set()
        server.close()
        await server.wait_closed()


def _http(status: str, content_type: str, body: bytes, extra: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\n{extra}content-length: {len(body)}\r\n"
    return head.encode() + b"connection: close\r\n\r\n" + body


@pytest.mark.parametrize(
    ("response", "says"),
    [
        (
            _http("403 Forbidden", "text/html", b"<html>no, <b>you</b> may not</html>"),
            "refused: HTTP 403: no, you may not",
        ),
        (
            _http("401 Unauthorized", "text/html", b"Invalid IAP credentials"),
            "refused: HTTP 401: Invalid IAP credentials",
        ),
        (_http("302 Found", "text/html", b"", "location: https://login.example.org\r\n"), r"\(to log in\?\): HTTP 302"),
        (_http("200 OK", "text/html", b"<html>log in</html>"), "something else answers there"),
        (
            _http("403 Forbidden", "application/json", b'{"error": {"code": 403, "message": "edge"}}'),
            "refused: HTTP 403",
        ),
        (_http("502 Bad Gateway", "application/json", b"not json"), "something else answers there"),
    ],
)
async def test_a_proxys_answer_means_that_the_controller_was_not_reached(response: bytes, says: str) -> None:
    async with _answering(response) as url, Client(url) as client:
        with pytest.raises(Unavailable, match=says):
            await client.info()


async def test_the_reason_for_not_reaching_it_keeps_the_http_status() -> None:
    async with _answering(_http("403 Forbidden", "text/html", b"no")) as url:
        channel = Channel(url)
        with pytest.raises(ConnectError) as failed:
            await channel.cluster.get_cluster_info(GetClusterInfoRequest())
        await channel.close()
    assert failed.value.code is Code.UNAVAILABLE
    assert isinstance(failed.value.__cause__, ForeignAnswer)
    assert failed.value.__cause__.status == 403


async def test_a_controllers_own_refusal_is_a_refusal() -> None:
    body = b'{"code": "permission_denied", "message": "not your job"}'
    async with _answering(_http("403 Forbidden", "application/json", body)) as url, Client(url) as client:
        with pytest.raises(PermissionDenied, match="not your job"):
            await client.info()


async def test_a_controller_without_this_call_is_told_from_one_that_is_away() -> None:
    response = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    async with _answering(response) as url, Client(url) as client:
        with pytest.raises(Unimplemented, match="does not offer"):
            await client.info()


async def test_a_caller_that_gives_up_gets_its_own_timeout() -> None:
    async with _answering(None) as url, Client(url) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.info()


async def test_a_cancelled_call_is_a_cancelled_task() -> None:
    async with _answering(None) as url, Client(url) as client:
        call = asyncio.create_task(client.info())
        await asyncio.wait({call}, timeout=0.1)
        call.cancel()
        await asyncio.wait({call})
        assert call.cancelled()
