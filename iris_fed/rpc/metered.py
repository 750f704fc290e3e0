"""Counts every RPC with how it ended and how long it took."""

import time
from typing import Any

from connectrpc.errors import ConnectError
from connectrpc.request import RequestContext

from iris_fed.meters import Meters

OK = "ok"


class Metered:
    """Outside of everything else, so that what the gate refuses counts too."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters

    async def on_start(self, ctx: RequestContext[Any, Any]) -> float:
        return time.perf_counter()

    async def on_end(self, began: float, ctx: RequestContext[Any, Any], error: Exception | None, /) -> None:
        code = OK if error is None else error.code.value if isinstance(error, ConnectError) else "canceled"
        self._meters.called(ctx.method.name, code, time.perf_counter() - began)
