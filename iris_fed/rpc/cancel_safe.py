"""Calls that can be cancelled."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from connectrpc.errors import ConnectError
from connectrpc.request import RequestContext

REQ = TypeVar("REQ")
RES = TypeVar("RES")


class CancelSafe:
    """Gives a cancelled caller its own CancelledError back: the client turns it into ConnectError(CANCELED),
    which breaks `asyncio.timeout` and task groups."""

    async def intercept_unary(
        self, call_next: Callable[[REQ, RequestContext[Any, Any]], Awaitable[RES]], request: REQ, ctx: Any, /
    ) -> RES:
        try:
            return await call_next(request, ctx)
        except ConnectError as error:
            if isinstance(error.__cause__, asyncio.CancelledError):
                raise error.__cause__ from None
            raise

    async def intercept_server_stream(
        self, call_next: Callable[[REQ, RequestContext[Any, Any]], AsyncIterator[RES]], request: REQ, ctx: Any, /
    ) -> AsyncIterator[RES]:
        stream = call_next(request, ctx)
        try:
            async for response in stream:
                yield response
        except ConnectError as error:
            if isinstance(error.__cause__, asyncio.CancelledError):
                raise error.__cause__ from None
            raise
        finally:
            await close_stream(stream)


async def close_stream(stream: AsyncIterator[Any]) -> None:
    """Whatever it is made of. What the library says of a stream that was given up in the middle is of no use."""
    aclose = getattr(stream, "aclose", None)
    if aclose is not None:
        with contextlib.suppress(ConnectError, RuntimeError):
            await aclose()
