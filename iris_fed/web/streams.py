"""Ends what would go on for ever when the controller stops.

A stream that follows a log lasts as long as its job. Cut by cancellation it would tell its reader
that the reader had cancelled; here it ends as UNAVAILABLE, after which every client resumes.
"""

import asyncio
import json
import struct

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_STREAM_TYPE = b"application/connect+"
_END_OF_STREAM = 0x02
"""Flag of the envelope that closes a stream of the Connect protocol."""


class Streams:
    """Wraps an application whose streams `stop` ends at once. Everything else passes untouched."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: set[asyncio.Task[object]] = set()
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True
        for task in self._open:
            task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        content_type = _content_type(scope)
        if not content_type.startswith(_STREAM_TYPE):
            await self._app(scope, receive, send)
            return
        started = False

        async def send_until_stopped(message: Message) -> None:
            nonlocal started
            if not self._stopping:
                started = True
                await send(message)

        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if self._stopping:
                await _end(send, content_type, started=False)
                return
            await self._app(scope, receive, send_until_stopped)
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            await _end(send, content_type, started=started)
        finally:
            self._open.discard(task)


async def _end(send: Send, content_type: bytes, *, started: bool) -> None:
    if not started:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", content_type)]})
    error = {"error": {"code": "unavailable", "message": "the controller is stopping"}}
    body = json.dumps(error).encode()
    envelope = struct.pack(">BI", _END_OF_STREAM, len(body)) + body
    await send({"type": "http.response.body", "body": envelope, "more_body": False})


def _content_type(scope: Scope) -> bytes:
    if scope["type"] != "http":
        return b""
    values = [value for name, value in scope["headers"] if name == b"content-type"]
    return bytes(values[0]) if values else b""
