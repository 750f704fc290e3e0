"""Answers that no controller gave: a proxy's, a login page's, those of whatever else stands there."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress

from connectrpc.code import Code
from connectrpc.errors import ConnectError
from pyqwest import Request, Response, Transport

MAX_ERROR_BYTES = 256 * 1024
MAX_PAGE_BYTES = 4_096
MAX_SAID = 160
MAX_SAID_WORD = 40
MAX_PAGE_S = 1.0
_MARKUP = re.compile(r"<(style|script|title)\b.*?</\1\s*>|<[^>]*>?", re.IGNORECASE | re.DOTALL)
_CONNECT_CODES = frozenset(code.value for code in Code)


class ForeignAnswer(ConnectionError):
    """An answer that no controller gave: a proxy's, a login page, a wrong port.

    `status` is its HTTP status, `said` the beginning of what it said to people. A controller that does not know
    a method or service answers 404 without a body, which is foreign too: ask `answered_404`.
    """

    def __init__(self, status: int, content_type: str, said: str = "") -> None:
        shown = content_type.partition(";")[0].strip() or "no content type"
        super().__init__(f"HTTP {status} with {shown[:60]}, which is no controller's answer")
        self.status = status
        self.said = said


class ConnectOnly:
    """A transport that raises ForeignAnswer for whatever is not spoken in the Connect protocol.

    Without it the client library makes PERMISSION_DENIED of any 403, as if the controller had refused.
    """

    def __init__(self, inner: Transport, max_bytes: int) -> None:
        self._inner = inner
        self._max_bytes = max_bytes

    async def execute(self, request: Request) -> Response:
        response = await self._inner.execute(request)
        content_type = response.headers.get("content-type") or ""
        kind = content_type.partition(";")[0].strip().lower()
        if response.status == 200 and kind.startswith("application/connect+"):
            # A stream has no end that could be waited for; each of its messages is bounded.
            return response
        if response.status == 200 and kind.startswith("application/proto"):
            return self._bounded(response)
        if kind != "application/json":
            raise await _foreign(response, content_type)
        if response.status == 200:
            return self._bounded(response)
        body = await _read_bounded(response)
        if not _is_connect_error(body):
            raise ForeignAnswer(response.status, content_type)
        return Response(status=response.status, headers=response.headers, content=body)

    def _bounded(self, response: Response) -> Response:
        content = _at_most(response, self._max_bytes)
        return Response(status=response.status, headers=response.headers, content=content)


async def _at_most(response: Response, max_bytes: int) -> AsyncIterator[bytes]:
    """The library looks at the size of an answer when it has all of it, however long it is."""
    size = 0
    async with response:
        async for chunk in response.content:
            size += len(chunk)
            if size > max_bytes:
                raise ConnectionError(f"its answer is larger than {max_bytes} bytes")
            yield bytes(chunk)


def answered_404(error: ConnectError) -> bool:
    """Whether the other side does not know the method or service at all (Connect servers answer a bare 404)."""
    return isinstance(error.__cause__, ForeignAnswer) and error.__cause__.status == 404


async def _foreign(response: Response, content_type: str) -> ForeignAnswer:
    said = b""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(MAX_PAGE_S), response:
            async for chunk in response.content:
                said += chunk
                if len(said) > MAX_PAGE_BYTES:
                    break
    return ForeignAnswer(response.status, content_type, _for_people(said))


async def _read_bounded(response: Response) -> bytes:
    body = bytearray()
    async with response:
        async for chunk in response.content:
            body += chunk
            if len(body) > MAX_ERROR_BYTES:
                break
    return bytes(body)


def _for_people(body: bytes) -> str:
    """The first words of a page, in one line. Long ones are left out: a proxy may repeat a token."""
    text = _MARKUP.sub(" ", body[:MAX_PAGE_BYTES].decode("utf-8", "replace"))
    words = [word if len(word) <= MAX_SAID_WORD and word.isprintable() else "..." for word in text.split()]
    return " ".join(words)[:MAX_SAID]


def _is_connect_error(body: bytes) -> bool:
    try:
        data = json.loads(body)
    except ValueError:
        return False
    return isinstance(data, dict) and data.get("code") in _CONNECT_CODES
