"""Sessions of browsers that no proxy speaks for: a token goes in once, a cookie that no script reads comes out."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from iris_fed.auth.authenticator import Authenticator
from iris_fed.auth.network import Network, client_address
from iris_fed.auth.session import COOKIE
from iris_fed.errors import Code, IrisFedError
from iris_fed.web.hosts import LOOPBACK_HOSTS

MAX_BODY_BYTES = 8 * 1024
BODY_LIMIT_S = 5.0
MAX_OPENING = 32
"""Attempts under way at once, of everybody together."""
METHOD = "OpenSession"
"""What the audit calls it."""
_STATUS = {Code.UNAUTHENTICATED: 401, Code.PERMISSION_DENIED: 403, Code.UNAVAILABLE: 503}
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Audited(Protocol):
    """Writes down who did what; `line` holds the fields that docs/security.md names."""

    def allowed(self, line: dict[str, str]) -> None: ...

    def denied(self, line: dict[str, str], code: str, reason: str) -> None: ...


class SessionRoute:
    """`POST` with JSON `{"token": ...}` opens a session, `DELETE` ends the browser's; both answer 204.
    `path` is the page's own, as a browser sees it; `proxies` are believed about a client's address."""

    def __init__(
        self, authenticator: Authenticator, audit: Audited, path: str = "/", proxies: Sequence[Network] = ()
    ) -> None:
        self._authenticator = authenticator
        self._audit = audit
        self._path = path or "/"
        self._proxies = proxies
        self._opening = 0

    def route(self) -> Route:
        return Route("/session", self._serve, methods=["POST", "DELETE"])

    async def _serve(self, request: Request) -> Response:
        if request.method == "DELETE":
            response = Response(status_code=204)
            response.delete_cookie(COOKIE, **self._attributes(request))
            return response
        # Read before it is counted: whoever sends a byte now and then takes nobody's place.
        try:
            async with asyncio.timeout(BODY_LIMIT_S):
                token = await _token_in(request)
        except TimeoutError:
            return self._refuse(request, 408, "deadline_exceeded", "the request did not arrive in time")
        if token is None:
            return self._refuse(request, 400, "invalid_argument", 'send JSON: {"token": "..."}')
        if self._opening >= MAX_OPENING:
            return self._refuse(request, 429, "resource_exhausted", "too many sign in at once; try again")
        self._opening += 1
        try:
            return await self._open(request, token)
        finally:
            self._opening -= 1

    async def _open(self, request: Request, token: str) -> Response:
        try:
            session = await self._authenticator.open_session(token)
        except IrisFedError as error:
            return self._refuse(request, _STATUS.get(error.code, 400), error.code.value, error.message)
        who = session.identity
        line = {"caller": who.principal, "role": who.role.value, "source": who.source.value}
        self._audit.allowed(self._line(request) | line)
        response = Response(status_code=204)
        response.set_cookie(COOKIE, session.value, max_age=session.lifetime_s, **self._attributes(request))
        return response

    def _refuse(self, request: Request, status: int, code: str, message: str) -> Response:
        self._audit.denied(self._line(request), code, message)
        return JSONResponse({"code": code, "message": message}, status)

    def _line(self, request: Request) -> dict[str, str]:
        peer = f"{request.client.host}:{request.client.port}" if request.client else ""
        client = client_address(peer, request.headers.get("x-forwarded-for", ""), self._proxies)
        return {"method": METHOD, "client": client}

    def _attributes(self, request: Request) -> dict[str, Any]:
        """Of the cookie. Only on loopback it does without TLS: there it leaves no machine."""
        secure = request.url.hostname not in LOOPBACK_HOSTS
        return {"path": self._path, "secure": secure, "httponly": True, "samesite": "strict"}


class SessionGuard:
    """ASGI: with the cookie, only a page of this very origin changes anything. A cookie goes along wherever the
    host is the same, whatever the port and whoever wrote the page, so the host alone says too little."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            if COOKIE + "=" in headers.get("cookie", "") and not is_same_origin(headers):
                refusal = "a session counts only for the controller's own page"
                await PlainTextResponse(refusal + "\n", status_code=403)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def is_same_origin(headers: dict[str, str]) -> bool:
    """Whether a browser says that a page of the host asked for has sent this; names are lower case."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is None and origin is None:
        return False
    if site is not None and site.lower() != "same-origin":
        return False
    return origin is None or _is_of_host(origin, headers.get("host", ""))


def _is_of_host(origin: str, host: str) -> bool:
    """Whether an origin is the host and port that `host` names; a default port may be left out."""
    try:
        theirs = urlsplit(origin)
        ours = urlsplit(f"//{host}")
        default = _DEFAULT_PORTS.get(theirs.scheme)
        same_port = (theirs.port or default) == (ours.port or default)
    except ValueError:
        return False
    return theirs.hostname is not None and theirs.hostname == ours.hostname and same_port


async def _token_in(request: Request) -> str | None:
    """None = it is no such request, or too long."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        # Another type would come without a preflight from a page elsewhere.
        return None
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            return None
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return None
    token = told.get("token") if isinstance(told, dict) else None
    return token if isinstance(token, str) and token else None
