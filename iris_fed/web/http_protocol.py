"""HTTP as uvicorn speaks it, with bounds that it lacks: on the size of headers and on patience.

Without them one connection can fill the memory with headers that never end, or hold a place for
ever by sending a byte now and then.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES = 64 * 1024
HEADERS_TIMEOUT_S = 10.0
BODY_TIMEOUT_S = 60.0
"""For the whole body: enough for a large request on a slow line."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """Closes a connection whose request is too large in its headers or too slow to arrive."""

    _receiving: asyncio.TimerHandle | None = None
    _header_bytes = 0
    _in_headers = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect(HEADERS_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_headers:
            self._header_bytes += len(data)
        super().data_received(data)
        if self._in_headers and self._header_bytes > MAX_HEADER_BYTES:
            self.transport.abort()

    def on_message_begin(self) -> None:
        self._in_headers, self._header_bytes = True, 0
        self._expect(HEADERS_TIMEOUT_S)
        super().on_message_begin()

    def on_headers_complete(self) -> Any:
        self._in_headers = False
        self._expect(BODY_TIMEOUT_S)
        return super().on_headers_complete()

    def on_message_complete(self) -> Any:
        self._arrived()
        # What follows on this connection are the headers of its next request.
        self._in_headers, self._header_bytes = True, 0
        return super().on_message_complete()

    def _expect(self, within_s: float) -> None:
        self._arrived()
        self._receiving = self.loop.call_later(within_s, self._too_slow)

    def _arrived(self) -> None:
        if self._receiving is not None:
            self._receiving.cancel()
            self._receiving = None

    def _too_slow(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()
