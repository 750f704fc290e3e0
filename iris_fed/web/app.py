"""The ASGI application: RPC services, and the routes beside them."""

from collections.abc import Awaitable, Callable, Iterable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from iris_fed.web.hosts import HostGuard

Probe = Callable[[], Awaitable[bool]]


def build_app(services: Iterable[tuple[str, ASGIApp]], ready: Probe) -> ASGIApp:
    """`services`: path of each RPC service and its application. `ready` is asked at `/readyz`."""

    async def healthz(_: Request) -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> PlainTextResponse:
        return PlainTextResponse("ok\n") if await ready() else PlainTextResponse("not ready\n", status_code=503)

    routes: list[Route | Mount] = [Route("/healthz", healthz), Route("/readyz", readyz)]
    routes += [Mount(path, app=app) for path, app in services]
    return HostGuard(Starlette(routes=routes))
