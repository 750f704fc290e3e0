"""The ASGI application: RPC services, and the routes beside them."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import asdict

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from iris_fed.controller.readiness import Report
from iris_fed.web.headers import SecurityHeaders
from iris_fed.web.hosts import LOOPBACK_HOSTS, STRANGER, HostGuard
from iris_fed.web.page import page_routes
from iris_fed.web.prefix import BelowPrefix
from iris_fed.web.session import SessionGuard

Probe = Callable[[], Awaitable[Report]]
Reader = Callable[[Request], Awaitable[bool]]


def build_app(
    services: Iterable[tuple[str, ASGIApp]],
    ready: Probe,
    own_hosts: Collection[str] = LOOPBACK_HOSTS,
    may_read: Reader | None = None,
    path_prefix: str = "",
    beside: Sequence[Route] = (),
) -> ASGIApp:
    """`services`: path of each RPC service and its application. `ready` is asked at `/readyz`, which
    answers 200 or 503; to whom `may_read` admits (None = everybody) with one line a problem and a note, as
    JSON to who accepts only that. `own_hosts`: the names that it answers to. Below `path_prefix` everything
    answers as well. `beside`: further routes."""

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        report = await ready()
        status = 503 if report.problems else 200
        if STRANGER in request.scope or (may_read is not None and not await may_read(request)):
            return PlainTextResponse("not ready\n" if report.problems else "ok\n", status)
        if request.headers.get("accept", "").startswith("application/json"):
            return JSONResponse({"ready": not report.problems, **asdict(report)}, status)
        return PlainTextResponse(_lines(report), status)

    routes: list[Route | Mount] = [Route("/healthz", healthz), Route("/readyz", readyz)]
    probes = [prefix + route.path for route in routes for prefix in ("", path_prefix)]
    routes += [Mount(path, app=app) for path, app in services]
    routes += beside
    routes += page_routes(path_prefix)
    app: ASGIApp = Starlette(routes=routes)
    if path_prefix:
        app = BelowPrefix(app, path_prefix)
    return SecurityHeaders(HostGuard(SessionGuard(app), own_hosts, probes))


def _lines(report: Report) -> str:
    head = "not ready" if report.problems else "ok"
    return "\n".join([head, *report.problems, *(f"note: {note}" for note in report.notes)]) + "\n"
