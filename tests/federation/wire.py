"""The way from one cluster to another, in process, which a test can break at will.

Requests are named by their RPC method, the last part of the path.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from pyqwest import Headers, Request, Response, Transport
from pyqwest.testing import ASGITransport
from starlette.types import ASGIApp, Receive, Scope, Send

T = TypeVar("T")
ALWAYS = 1_000_000


class Served:
    """An application whose requests under way can be ended, as the end of its process would.

    What it raises, instead of answering, is added to `failures`.
    """

    def __init__(self, app: ASGIApp, failures: list[Exception]) -> None:
        self._app = app
        self.failures = failures
        self._under_way: set[asyncio.Task[object]] = set()
        self.down = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            self.failures.append(error)
            raise
        finally:
            self._under_way.discard(task)

    async def end(self, grace_s: float = 0.0) -> None:
        """Nobody gets in any more; what is under way is cut off after `grace_s`."""
        if self._under_way and grace_s:
            await asyncio.wait(set(self._under_way), timeout=grace_s)
        self.down.set()
        under_way = set(self._under_way)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


class Wire(Transport):
    """`serving` gives the application at the other end, None while it does not run.

    `seen` lists the methods of the requests that were sent, `arrived` of those that were served.
    `held` keeps the requests that hang on their way.
    """

    def __init__(self, serving: Callable[[], Served | None]) -> None:
        self._serving = serving
        self._rules: dict[str, tuple[str, int]] = {}
        self._answers: dict[str, tuple[int, str, bytes]] = {}
        self._cut = asyncio.Event()
        self.seen: list[str] = []
        self.arrived: list[str] = []
        self.held: list[Request] = []

    def cut(self) -> None:
        """No connection any more; what is under way breaks."""
        self._cut.set()

    def mend(self) -> None:
        """As new: every rule is forgotten; what hangs is lost."""
        self._cut.set()
        self._cut = asyncio.Event()
        self._rules.clear()
        self._answers.clear()

    def lose_requests(self, method: str, times: int = ALWAYS) -> None:
        """They get lost before they arrive."""
        self._rules[method] = ("lose_request", times)

    def lose_answers(self, method: str, times: int = ALWAYS) -> None:
        """They are served, but the answer gets lost."""
        self._rules[method] = ("lose_answer", times)

    def hang(self, method: str = "*", times: int = ALWAYS) -> None:
        """Neither answer nor error. "*" = every method."""
        self._rules[method] = ("hang", times)

    def answer(self, method: str, status: int, content_type: str, body: bytes) -> None:
        """Something in between answers by itself."""
        self._answers[method] = (status, content_type, body)

    async def deliver_late(self, request: Request) -> tuple[int, bytes]:
        """A held request arrives after all, though its sender has given up. HTTP status and body."""
        response = await self._pass_on(request)
        return response.status, await _read_all(response)

    async def execute(self, request: Request) -> Response:
        method = method_of(request.url)
        self.seen.append(method)
        if self._cut.is_set() or self._other_end() is None:
            raise ConnectionError("error sending request: client error (Connect): connection refused")
        if method in self._answers:
            status, content_type, body = self._answers[method]
            return Response(status=status, headers=Headers([("content-type", content_type)]), content=body)
        match self._take_rule(method):
            case "lose_request":
                raise ConnectionError("connection reset")
            case "hang":
                self.held.append(request)
                await self._cut.wait()
                raise ConnectionError("connection reset")
            case "lose_answer":
                await _read_all(await self._pass_on(request))
                raise ConnectionError("connection reset")
            case _:
                return await self._pass_on(request)

    def _other_end(self) -> Served | None:
        serving = self._serving()
        return None if serving is None or serving.down.is_set() else serving

    async def _pass_on(self, request: Request) -> Response:
        serving = self._other_end()
        if serving is None:
            raise ConnectionError("connection reset")
        self.arrived.append(method_of(request.url))
        breaks = (self._cut, serving.down)
        response = await _unless_broken(ASGITransport(serving).execute(request), breaks)
        return Response(status=response.status, headers=response.headers, content=_breakable(response, breaks))

    def _take_rule(self, method: str) -> str:
        for key in (method, "*"):
            what, times = self._rules.get(key, ("", 0))
            if times > 0:
                self._rules[key] = (what, times - 1)
                return what
        return ""


def method_of(url: str) -> str:
    return url.rpartition("/")[2]


async def _read_all(response: Response) -> bytes:
    async with response:
        return b"".join([chunk async for chunk in response.content])


async def _breakable(response: Response, breaks: tuple[asyncio.Event, ...]) -> AsyncIterator[bytes]:
    async with response:
        chunks = aiter(response.content)
        while (chunk := await _unless_broken(_next(chunks), breaks)) is not None:
            yield chunk


async def _next(chunks: AsyncIterator[bytes | bytearray | memoryview]) -> bytes | None:
    chunk = await anext(chunks, None)
    return None if chunk is None else bytes(chunk)


async def _unless_broken(work: Awaitable[T], breaks: tuple[asyncio.Event, ...]) -> T:
    """The result of `work`; a ConnectionError when one of `breaks` is set first."""
    working = asyncio.ensure_future(work)
    watching = [asyncio.ensure_future(event.wait()) for event in breaks]
    try:
        await asyncio.wait([working, *watching], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ConnectionError("connection reset")
        return working.result()
    finally:
        for task in (working, *watching):
            task.cancel()
        await asyncio.gather(working, *watching, return_exceptions=True)
