"""What a stop does to requests under way, at the level of ASGI messages."""

import asyncio
import json
from typing import Any

import pytest

from iris_fed.web.streams import Streams

STREAM = "application/connect+proto"


def _scope(content_type: str) -> dict[str, Any]:
    return {"type": "http", "headers": [(b"content-type", content_type.encode())]}


class _App:
    """Begins an answer, then waits for ever; `begun` says that it does."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            self.begun.set()
            await asyncio.Event().wait()
        finally:
            await send({"type": "http.response.body", "body": b"an end of its own", "more_body": False})


async def _receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


def _end(message: dict[str, Any]) -> dict[str, Any]:
    """The error of a Connect stream's last envelope: a flag, four bytes of length, JSON."""
    body = message["body"]
    assert (body[0], int.from_bytes(body[1:5], "big")) == (2, len(body) - 5)
    error: dict[str, Any] = json.loads(body[5:])["error"]
    return error


async def test_an_open_stream_ends_as_unavailable_and_with_nothing_after_it() -> None:
    app, sent = _App(), []
    streams = Streams(app)

    async def send(message: Any) -> None:
        sent.append(message)

    request = asyncio.create_task(streams(_scope(STREAM), _receive, send))
    await app.begun.wait()
    streams.stop()
    await request
    start, end = sent
    assert start["type"] == "http.response.start"
    assert _end(end)["code"] == "unavailable"
    assert end["more_body"] is False


async def test_a_stream_that_comes_after_the_stop_is_told_so_at_once() -> None:
    app, sent = _App(), []
    streams = Streams(app)

    async def send(message: Any) -> None:
        sent.append(message)

    streams.stop()
    await streams(_scope(STREAM), _receive, send)
    assert not app.begun.is_set()
    assert sent[0]["headers"] == [(b"content-type", STREAM.encode())]
    assert _end(sent[1])["code"] == "unavailable"


@pytest.mark.parametrize("content_type", ["application/proto", "application/json"])
async def test_other_requests_are_left_to_end_by_themselves(content_type: str) -> None:
    app, sent = _App(), []
    streams = Streams(app)

    async def send(message: Any) -> None:
        sent.append(message)

    request = asyncio.create_task(streams(_scope(content_type), _receive, send))
    await app.begun.wait()
    streams.stop()
    done, _ = await asyncio.wait({request}, timeout=0)
    assert not done
    request.cancel()
    await asyncio.wait({request})
    assert request.cancelled()


async def test_a_reader_that_goes_away_is_a_cancellation_as_before() -> None:
    app, sent = _App(), []
    streams = Streams(app)

    async def send(message: Any) -> None:
        sent.append(message)

    request = asyncio.create_task(streams(_scope(STREAM), _receive, send))
    await app.begun.wait()
    request.cancel()
    await asyncio.wait({request})
    assert request.cancelled()
    assert sent[-1]["body"] == b"an end of its own"
