"""HTTP as uvicorn speaks it, with bounds that it lacks: on connections, on headers and on patience.

Without them one connection can fill the memory with headers that never end, or hold a place for
ever by sending a byte now and then.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from iris_fed.web.connections import Connections

MAX_HEADER_BYTES = 64 * 1024
"""Of one request, its request line included; and what a body in chunks may weigh beyond twice its content,
since headers may follow it too."""
HEADERS_TIMEOUT_S = 10.0
BODY_ROUND_S = 15.0
BODY_BYTES_PER_S = 16 * 1024
"""What a body owes in each round: a large one has its time on a slow line, and no byte now and then holds a place."""
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\nretry-after: 1\r\n"
    b"connection: close\r\ncontent-length: 43\r\n\r\ntoo many connections from here; close some\n"
)


class BoundedHttpProtocol(HttpToolsProtocol):
    """Closes a connection whose request is too large in its headers or too slow to arrive, and one too many."""

    room = Connections()

    _receiving: asyncio.TimerHandle | None = None
    _address: str | None = None
    _received = 0
    _content = 0
    _content_before = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        if not self.room.enter(address):
            transport.write(_FULL)
            transport.close()
            return
        self._address = address
        self._expect(HEADERS_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        if self._address is not None:
            self.room.leave(self._address)
            self._address = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._address is None:
            return
        self._received += len(data)
        super().data_received(data)
        if self._received - self._content > MAX_HEADER_BYTES + self._content:
            self.transport.abort()

    def on_message_begin(self) -> None:
        self._received = self._content = 0
        self._expect(HEADERS_TIMEOUT_S)
        super().on_message_begin()

    def on_headers_complete(self) -> Any:
        self._content_before = 0
        self._expect(BODY_ROUND_S, self._judge_body)
        return super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._content += len(body)
        super().on_body(body)

    def on_message_complete(self) -> Any:
        self._arrived()
        # What follows on this connection are the headers of its next request.
        self._received = self._content = 0
        return super().on_message_complete()

    def _expect(self, within_s: float, otherwise: Callable[[], None] | None = None) -> None:
        self._arrived()
        self._receiving = self.loop.call_later(within_s, otherwise or self._too_slow)

    def _judge_body(self) -> None:
        # Where it is we who do not read, the client is not slow.
        is_held = self.flow.read_paused
        if not is_held and self._content - self._content_before < BODY_ROUND_S * BODY_BYTES_PER_S:
            self._too_slow()
            return
        self._content_before = self._content
        self._expect(BODY_ROUND_S, self._judge_body)

    def _arrived(self) -> None:
        if self._receiving is not None:
            self._receiving.cancel()
            self._receiving = None

    def _too_slow(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()


def bounded_by(connections: Connections) -> type[BoundedHttpProtocol]:
    """The protocol of one server, whose connections are counted together."""
    return type("CountedHttpProtocol", (BoundedHttpProtocol,), {"room": connections})
