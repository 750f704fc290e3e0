"""The client side of our RPC, as the SDK and a peer's link share it: one pool of connections, deadlines, headers.

No redirect is followed and nothing is compressed: a redirect would carry a token elsewhere, and on
the links between controllers gzip costs more than it saves.
"""

import asyncio
import ipaddress
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

from connectrpc.code import Code
from connectrpc.errors import ConnectError
from connectrpc.request import RequestContext
from pyqwest import Client, HTTPTransport, Request, Response, Transport

from iris_fed.rpc.gen.cluster.controller_connect import ControllerServiceClient
from iris_fed.rpc.gen.irisfed.cluster_connect import ClusterServiceClient

POOL_IDLE_TIMEOUT_S = 60.0
"""Below the keep-alive of our servers (120 s), so that no call is sent on a connection being closed."""
CONNECT_TIMEOUT_S = 5.0
TCP_KEEPALIVE_S = 15.0
"""Notices a dead machine under a stream that is silent for long."""
SETTLE_S = 0.02
"""The transport's threads let go of finished calls a moment later; an interpreter that ends in that
moment is aborted by them."""
DEFAULT_DEADLINE_S = 30.0
MAX_RESPONSE_BYTES = 64 * 1024 * 1024
MAX_ERROR_BYTES = 256 * 1024
_CONNECT_CODES = frozenset(code.value for code in Code)

REQ = TypeVar("REQ")
RES = TypeVar("RES")
HeaderSource = Callable[[], Mapping[str, str]]


class ForeignAnswer(ConnectionError):
    """An answer that no controller gave: a proxy's, a login page, a wrong port.

    `status` is its HTTP status. A controller that does not know a method or service answers 404
    without a body, which is foreign too: ask `answered_404`.
    """

    def __init__(self, status: int, content_type: str) -> None:
        shown = content_type.partition(";")[0].strip() or "no content type"
        super().__init__(f"HTTP {status} with {shown[:60]}, which is no controller's answer")
        self.status = status


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
            await _close(stream)


class SendHeaders:
    """Adds what `source` gives at the time of each call, so that a short-lived token is always fresh."""

    def __init__(self, source: HeaderSource) -> None:
        self._source = source

    async def on_start(self, ctx: RequestContext[Any, Any]) -> None:
        for name, value in self._source().items():
            ctx.request_headers[name] = value

    async def on_end(self, _token: None, _ctx: RequestContext[Any, Any], _error: Exception | None, /) -> None:
        return


class ConnectOnly:
    """A transport that raises ForeignAnswer for whatever is not spoken in the Connect protocol.

    Without it the client library makes PERMISSION_DENIED of any 403, as if the controller had refused.
    """

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def execute(self, request: Request) -> Response:
        response = await self._inner.execute(request)
        content_type = response.headers.get("content-type") or ""
        kind = content_type.partition(";")[0].strip().lower()
        if response.status == 200 and kind.startswith(("application/proto", "application/connect+")):
            return response
        if kind != "application/json":
            raise await _foreign(response, content_type)
        if response.status == 200:
            return response
        body = await _read_bounded(response)
        if not _is_connect_error(body):
            raise ForeignAnswer(response.status, content_type)
        return Response(status=response.status, headers=response.headers, content=body)


class Channel:
    """One controller, as a caller sees it: its two services over one pool of connections.

    `address` is an http(s) URL without a path of the service. `headers` is asked at every call.
    Unary calls end after `deadline_s` unless the call says otherwise; `streams` has no deadline of
    its own. `ca_pem` replaces the system's certificates. Errors come as ConnectError; where no
    controller answered, its `__cause__` is the OSError (ForeignAnswer included).
    """

    def __init__(
        self,
        address: str,
        *,
        headers: HeaderSource | None = None,
        deadline_s: float = DEFAULT_DEADLINE_S,
        ca_pem: bytes | None = None,
        transport: Transport | None = None,
    ) -> None:
        self.address = address.rstrip("/")
        self._owned: HTTPTransport | None = None
        if transport is None:
            transport = self._owned = open_transport(self.address, ca_pem)
        http = Client(ConnectOnly(transport))
        interceptors = (CancelSafe(), SendHeaders(headers)) if headers else (CancelSafe(),)
        common: dict[str, Any] = {
            "accept_compression": (),
            "send_compression": None,
            "read_max_bytes": MAX_RESPONSE_BYTES,
            "interceptors": interceptors,
            "http_client": http,
        }
        deadline_ms = int(deadline_s * 1000)
        self.controller = ControllerServiceClient(self.address, timeout_ms=deadline_ms, **common)
        self.cluster = ClusterServiceClient(self.address, timeout_ms=deadline_ms, **common)
        self.streams = ClusterServiceClient(self.address, **common)

    async def close(self) -> None:
        """Close the connections, unless the transport was handed in."""
        if self._owned is not None:
            await self._owned.aclose()
            await asyncio.sleep(SETTLE_S)


def open_transport(address: str, ca_pem: bytes | None = None) -> HTTPTransport:
    """A pool of connections for `address`; close it with `aclose`."""
    secure = urlsplit(address).scheme == "https"
    return HTTPTransport(
        tls_ca_cert=ca_pem if secure else None,
        tls_include_system_certs=secure and ca_pem is None,
        connect_timeout=CONNECT_TIMEOUT_S,
        pool_idle_timeout=POOL_IDLE_TIMEOUT_S,
        tcp_keepalive_interval=TCP_KEEPALIVE_S,
        enable_gzip=False,
        enable_brotli=False,
        enable_zstd=False,
        follow_redirects=False,
        enable_otel=False,
    )


def answered_404(error: ConnectError) -> bool:
    """Whether the other side does not know the method or service at all (Connect servers answer a bare 404)."""
    return isinstance(error.__cause__, ForeignAnswer) and error.__cause__.status == 404


def keep_loopback_off_proxies() -> None:
    """Extend NO_PROXY by this machine: the transport obeys HTTP_PROXY even for loopback, and only the
    environment turns that off. Call it once, before the first client."""
    present = os.environ.get("NO_PROXY", os.environ.get("no_proxy", ""))
    hosts = [host.strip() for host in present.split(",") if host.strip()]
    wanted = [host for host in ("127.0.0.1", "localhost", "::1") if host not in hosts]
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = ",".join(hosts + wanted)


def is_loopback_url(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _close(stream: AsyncIterator[Any]) -> None:
    aclose = getattr(stream, "aclose", None)
    if aclose is not None:
        await aclose()


async def _foreign(response: Response, content_type: str) -> ForeignAnswer:
    async with response:
        return ForeignAnswer(response.status, content_type)


async def _read_bounded(response: Response) -> bytes:
    body = bytearray()
    async with response:
        async for chunk in response.content:
            body += chunk
            if len(body) > MAX_ERROR_BYTES:
                break
    return bytes(body)


def _is_connect_error(body: bytes) -> bool:
    try:
        data = json.loads(body)
    except ValueError:
        return False
    return isinstance(data, dict) and data.get("code") in _CONNECT_CODES
