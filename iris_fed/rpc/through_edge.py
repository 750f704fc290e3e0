"""What a client shows to the proxy in front of a controller, on every call."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from connectrpc.code import Code
from connectrpc.errors import ConnectError
from connectrpc.request import RequestContext

from iris_fed.auth.edge_sources import EdgeTokenUnavailable
from iris_fed.auth.edge_tokens import EdgeToken
from iris_fed.rpc.cancel_safe import close_stream
from iris_fed.rpc.foreign import ForeignAnswer

REQ = TypeVar("REQ")
RES = TypeVar("RES")


class ThroughEdge:
    """Shows `edge`'s token to the proxy in front; when that is refused, once more with a fresh one.

    A call without a token is one that never left: ConnectError(UNAVAILABLE), caused by EdgeTokenUnavailable.
    """

    def __init__(self, edge: EdgeToken) -> None:
        self._edge = edge

    async def intercept_unary(
        self, call_next: Callable[[REQ, RequestContext[Any, Any]], Awaitable[RES]], request: REQ, ctx: Any, /
    ) -> RES:
        shown = await self._show(ctx)
        try:
            return await call_next(request, ctx)
        except ConnectError as error:
            if not _is_refusal(error) or await self._show(ctx, refused=shown) == shown:
                raise
        return await call_next(request, ctx)

    async def intercept_server_stream(
        self, call_next: Callable[[REQ, RequestContext[Any, Any]], AsyncIterator[RES]], request: REQ, ctx: Any, /
    ) -> AsyncIterator[RES]:
        shown = await self._show(ctx)
        for is_last in (False, True):
            stream = call_next(request, ctx)
            try:
                async for response in stream:
                    yield response
                return
            except ConnectError as error:
                # It comes before the first message: what was begun is not begun again.
                if is_last or not _is_refusal(error) or await self._show(ctx, refused=shown) == shown:
                    raise
            finally:
                await close_stream(stream)

    async def _show(self, ctx: RequestContext[Any, Any], refused: str = "") -> str:
        try:
            token = await self._edge.get(refused)
        except EdgeTokenUnavailable as error:
            raise ConnectError(Code.UNAVAILABLE, str(error)) from error
        ctx.request_headers["proxy-authorization"] = f"Bearer {token}"
        return token


def _is_refusal(error: ConnectError) -> bool:
    return isinstance(error.__cause__, ForeignAnswer) and error.__cause__.status in (401, 407)
