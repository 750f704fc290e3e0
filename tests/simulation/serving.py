"""A request as the network carries it, and the application that answers it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message

PROTOCOL = {"version": "3.0", "spec_version": "2.5"}


@dataclass(frozen=True, slots=True)
class Carried:
    """One request. `method` is the RPC's, the last part of the path."""

    source: str
    target: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def method(self) -> str:
        return self.url.rpartition("/")[2]

    def __str__(self) -> str:
        return f"{self.source}>{self.target} {self.method}"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Server(Protocol):
    """A process that can be asked."""

    def serve(self, request: Carried) -> "asyncio.Task[Answer]": ...


Serving = Callable[[str], Server | None]


async def ask(app: ASGIApp, request: Carried) -> Answer:
    """What the application answers; it sees one whole body and no disconnect."""
    told: list[Message] = []
    bodies = [request.body]

    async def receive() -> Message:
        if not bodies:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": bodies.pop(), "more_body": False}

    async def send(message: Message) -> None:
        told.append(message)

    await app(_scope(request), receive, send)
    start = told[0]
    headers = tuple((name.decode(), value.decode()) for name, value in start.get("headers", ()))
    return Answer(start["status"], headers, b"".join(message.get("body", b"") for message in told[1:]))


def _scope(request: Carried) -> dict[str, Any]:
    url = urlsplit(request.url)
    headers = {name.lower(): value for name, value in request.headers} | {"host": url.netloc}
    return {
        "type": "http",
        "asgi": PROTOCOL,
        "http_version": "1.1",
        "method": "POST",
        "scheme": url.scheme,
        "path": url.path,
        "raw_path": url.path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "server": (url.hostname, url.port),
        "client": ("127.0.0.1", 1),
        "root_path": "",
        "extensions": {},
        "state": {},
    }
