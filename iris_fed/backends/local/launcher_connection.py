"""One controller's connection to the launcher: lines of JSON, bounded both ways.

Standard library only: the launcher's.
"""

import json
import selectors
import socket
from collections.abc import Callable

from iris_fed.backends.posix.files import Record
from iris_fed.backends.posix.loop import Loop

MAX_REQUEST_BYTES = 8 * 1024 * 1024
MAX_PENDING_BYTES = 8 * 1024 * 1024
"""A controller that leaves more than this unread is cut off; it asks for the state when it is back."""

_READ_BYTES = 256 * 1024


class Connection:
    def __init__(
        self,
        loop: Loop,
        peer: socket.socket,
        on_request: "Callable[[Connection, Record], None]",
        on_close: "Callable[[Connection], None]",
    ) -> None:
        self._loop = loop
        self._peer = peer
        self._on_request = on_request
        self._on_close = on_close
        self._received = bytearray()
        self._pending = bytearray()
        self._is_open = True
        peer.setblocking(False)
        loop.watch(peer.fileno(), selectors.EVENT_READ, self._ready)

    def send(self, message: Record) -> None:
        if not self._is_open:
            return
        self._pending += json.dumps(message).encode() + b"\n"
        self._flush()
        if len(self._pending) > MAX_PENDING_BYTES:
            self.close()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.unwatch(self._peer.fileno())
            self._peer.close()
            self._on_close(self)

    def _ready(self) -> None:
        if self._pending:
            self._flush()
        if self._is_open:
            self._receive()

    def _flush(self) -> None:
        try:
            sent = self._peer.send(self._pending)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        del self._pending[:sent]
        writing = selectors.EVENT_WRITE if self._pending else 0
        self._loop.watch(self._peer.fileno(), selectors.EVENT_READ | writing, self._ready)

    def _receive(self) -> None:
        try:
            data = self._peer.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._received += data
        while self._is_open and (end := self._received.find(b"\n")) >= 0:
            line = bytes(self._received[:end])
            del self._received[: end + 1]
            self._handle(line)
        if len(self._received) > MAX_REQUEST_BYTES:
            self.close()

    def _handle(self, line: bytes) -> None:
        try:
            request = json.loads(line)
        except ValueError:
            self.close()
            return
        self._on_request(self, request)
