"""Refuses requests that name another host, as a page in a browser can make them do (DNS rebinding).

Loopback's names are always its own; an operator adds those under which others ask.
"""

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

STRANGER = "iris_fed.stranger"
"""In the scope of a probe that named another host than ours."""
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
CREDENTIAL_HEADERS = ("authorization", "x-goog-iap-jwt-assertion")


class HostGuard:
    """ASGI: in front of everything else. `own_hosts`: lower-case names and addresses, without port. `probes`: paths
    that may be read under any name, marked as a STRANGER's."""

    def __init__(self, app: ASGIApp, own_hosts: Collection[str] = LOOPBACK_HOSTS, probes: Collection[str] = ()) -> None:
        self._app = app
        self._probes = frozenset(probes)
        self._own_hosts = frozenset(own_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
            refusal = refuse_headers(headers, self._own_hosts) or refuse_foreign_page(scope["method"], headers)
            if refusal is not None and scope["method"] in ("GET", "HEAD") and scope["path"] in self._probes:
                # A load balancer asks by address. Whoever asks so learns no more than ok or not.
                scope = {**scope, STRANGER: True}
            elif refusal is not None:
                await PlainTextResponse(refusal + "\n", status_code=403)(scope, receive, send)
                return
            unreadable = refuse_unreadable(headers)
            if unreadable is not None:
                await PlainTextResponse(unreadable[1] + "\n", status_code=unreadable[0])(scope, receive, send)
                return
        await self._app(scope, receive, send)


def refuse_headers(headers: list[tuple[str, str]], own_hosts: Collection[str] = LOOPBACK_HOSTS) -> str | None:
    """Why a request with these headers (lower-case names) is refused, or None."""
    hosts = [value for name, value in headers if name == "host"]
    if len(hosts) != 1 or _host_of(f"//{hosts[0]}") not in own_hosts:
        if own_hosts == LOOPBACK_HOSTS:
            return "this controller answers only to localhost, 127.0.0.1 or [::1]; listen.allowed_hosts adds names"
        return "this controller does not answer to that name; listen.allowed_hosts lists those it answers to"
    for name, value in headers:
        if name == "origin" and _host_of(value) not in own_hosts:
            return "requests of pages from elsewhere are refused"
    return None


def refuse_foreign_page(method: str, headers: list[tuple[str, str]]) -> str | None:
    """Why a browser may not send this on behalf of the page that it shows, or None. Following a link is fine."""
    if method in ("GET", "HEAD"):
        return None
    sites = {value.lower() for name, value in headers if name == "sec-fetch-site"}
    return None if sites <= {"same-origin", "none"} else "requests of pages from elsewhere are refused"


def refuse_unreadable(headers: list[tuple[str, str]]) -> tuple[int, str] | None:
    """HTTP status and words for what the RPC library behind this would stumble over, or None."""
    if not all(name.isascii() and value.isascii() for name, value in headers):
        return 400, "headers hold ASCII only"
    for credential in CREDENTIAL_HEADERS:
        if sum(name == credential for name, _ in headers) > 1:
            return 400, f"a request carries one {credential} header"
    if any(name == "content-type" and value.lower().startswith("application/grpc") for name, value in headers):
        return 415, "this controller speaks the Connect protocol, not gRPC"
    return None


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
