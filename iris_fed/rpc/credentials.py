"""What a caller shows: the command line, the SDK and the way to a peer alike.

`Authorization` is for the controller, `Proxy-Authorization` for a proxy in front of it. No other place sets them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from connectrpc.request import RequestContext

from iris_fed.clock import Clock

if TYPE_CHECKING:
    from iris_fed.auth.edge_tokens import EdgeToken


@dataclass(frozen=True, slots=True)
class Credentials:
    """`bearer` is asked at each call, so that a short-lived token is always fresh; None or "" = show none.
    `edge` is closed by whoever closes the channel; None = nothing stands in front."""

    bearer: Callable[[], str | None] | None = None
    edge: "EdgeToken | None" = None

    @classmethod
    def of(cls, bearer: str | Callable[[], str] | None, edge: str | None, clock: Clock, *, quiet: bool = True) -> Self:
        """As a configuration, a context or a program names them: a token or what makes one, and the source of an
        edge token. `quiet` as of `open_edge_token`. Raises ValueError for what says no source."""
        if not edge:
            return cls(_source(bearer))
        # Only now: it brings a library of cryptography, and most commands have no proxy in front.
        from iris_fed.auth.edge_tokens import open_edge_token

        return cls(_source(bearer), open_edge_token(edge, clock, quiet=quiet))

    def interceptors(self) -> list[Any]:
        """For a client's calls. The edge's comes inside, since it repeats a call."""
        shown: list[Any] = [] if self.bearer is None else [_ShowBearer(self.bearer)]
        if self.edge is None:
            return shown
        from iris_fed.rpc.through_edge import ThroughEdge

        return [*shown, ThroughEdge(self.edge)]

    async def close(self) -> None:
        if self.edge is not None:
            await self.edge.close()


def _source(bearer: str | Callable[[], str] | None) -> Callable[[], str | None] | None:
    return (lambda: bearer) if isinstance(bearer, str) else bearer


class _ShowBearer:
    def __init__(self, bearer: Callable[[], str | None]) -> None:
        self._bearer = bearer

    async def on_start(self, ctx: RequestContext[Any, Any]) -> None:
        if token := self._bearer():
            ctx.request_headers["authorization"] = f"Bearer {token}"

    async def on_end(self, _token: None, _ctx: RequestContext[Any, Any], _error: Exception | None, /) -> None:
        return
