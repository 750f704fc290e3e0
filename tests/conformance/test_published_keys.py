"""Keys over real HTTP: a publisher that rotates, fails, rambles or leads elsewhere."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from iris_fed.auth.iap import IapVerifier
from iris_fed.auth.jwks import KeysUnavailable, KeyTimes, PublishedKeys
from iris_fed.auth.key_endpoint import MAX_BYTES, KeyEndpoint
from iris_fed.clock import SystemClock
from iris_fed.errors import Unauthenticated, Unavailable
from iris_fed.supervise import Loops
from tests.google import AUDIENCE, Google, KeyServer

EAGER = KeyTimes(cooldown_s=0.001)


@pytest.fixture
def server() -> Iterator[KeyServer]:
    with KeyServer(Google()) as server:
        yield server


@asynccontextmanager
async def verifying(url: str) -> AsyncIterator[IapVerifier]:
    endpoint = KeyEndpoint(url)
    keys = PublishedKeys(endpoint, EAGER)
    loop = asyncio.create_task(Loops().supervise("keys", keys.run))
    try:
        yield IapVerifier(keys, AUDIENCE, SystemClock())
    finally:
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        await endpoint.close()


async def test_a_rotation_is_followed_and_an_outage_survived(server: KeyServer) -> None:
    google = server.google
    async with verifying(server.url) as verifier:
        assert await verifier.verify(google.assertion("alice@lab.org")) == "alice@lab.org"
        old = google.assertion("old@lab.org")
        google.rotate("key-2")
        assert await verifier.verify(google.assertion("bob@lab.org")) == "bob@lab.org"
        assert await verifier.verify(old) == "old@lab.org"
        server.status = 503
        google.rotate("key-3", drop="key-1")
        assert await verifier.verify(old) == "old@lab.org"
        with pytest.raises(Unauthenticated, match="does not publish"):
            await verifier.verify(google.assertion("eve@lab.org"))
        server.status = 200
        assert await verifier.verify(google.assertion("eve@lab.org")) == "eve@lab.org"
        with pytest.raises(Unauthenticated, match="does not publish"):
            await verifier.verify(old)


async def test_before_the_first_keys_nobody_is_believed_and_the_publisher_is_asked_again(server: KeyServer) -> None:
    server.body = b"<html>"
    async with verifying(server.url) as verifier:
        with pytest.raises(Unavailable):
            await verifier.verify(server.google.assertion())
        server.body = None
        assert await verifier.verify(server.google.assertion("alice@lab.org")) == "alice@lab.org"


async def refusal(url: str) -> str:
    endpoint = KeyEndpoint(url)
    try:
        with pytest.raises(KeysUnavailable) as refused:
            await endpoint()
    finally:
        await endpoint.close()
    return str(refused.value)


@pytest.mark.parametrize("status", [204, 301, 302, 403, 404, 500, 503])
async def test_only_a_plain_answer_counts_and_no_redirect_is_followed(server: KeyServer, status: int) -> None:
    server.status = status
    assert await refusal(server.url) == f"the answer is HTTP {status}"
    assert server.asked == 1


async def test_an_answer_without_end_is_not_read_to_its_end(server: KeyServer) -> None:
    server.body = b" " * (MAX_BYTES + 1)
    assert f"over {MAX_BYTES} bytes" in await refusal(server.url)


async def test_a_publisher_that_is_not_there_is_named_as_such() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert "ConnectError" in await refusal(f"http://127.0.0.1:{port}/keys")
