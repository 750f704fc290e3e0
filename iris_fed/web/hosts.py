"""Refuses requests that name another host, as a page in a browser can make them do (DNS rebinding).

Loopback is where this controller lives, so only loopback names are its own.
"""

from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

OWN_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


class HostGuard:
    """ASGI: in front of everything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refusal = refuse_headers([(k.decode("latin-1"), v.decode("latin-1")) for k, v in scope["headers"]])
            if refusal is not None:
                await PlainTextResponse(refusal + "\n", status_code=403)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def refuse_headers(headers: list[tuple[str, str]]) -> str | None:
    """Why a request with these headers (lower-case names) is refused, or None."""
    hosts = [value for name, value in headers if name == "host"]
    if len(hosts) != 1 or _host_of(f"//{hosts[0]}") not in OWN_HOSTS:
        return "this controller answers only to localhost, 127.0.0.1 or [::1]"
    for name, value in headers:
        if name == "origin" and _host_of(value) not in OWN_HOSTS:
            return "requests of pages from elsewhere are refused"
    return None


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
