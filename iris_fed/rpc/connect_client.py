"""The client side of our RPC, as the SDK and a peer's link share it: one pool of connections, deadlines, credentials.

No redirect is followed and nothing is compressed: a redirect would carry a token elsewhere, and on
the links between controllers gzip costs more than it saves.
"""

import asyncio
import ipaddress
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from pyqwest import Client, HTTPTransport, Transport

from iris_fed.errors import InvalidArgument
from iris_fed.rpc.cancel_safe import CancelSafe
from iris_fed.rpc.credentials import Credentials
from iris_fed.rpc.foreign import ConnectOnly
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


class Channel:
    """One controller, as a caller sees it: its two services over one pool of connections.

    `address` is an http(s) URL without a path of the service. `credentials` are shown at every call, and
    closed with the channel.
    Unary calls end after `deadline_s` unless the call says otherwise; `streams` has no deadline of
    its own. `ca_pem` replaces the system's certificates. Errors come as ConnectError; where no
    controller answered, its `__cause__` is the OSError (ForeignAnswer included). Raises InvalidArgument for an
    edge token that would travel in the clear.
    """

    def __init__(
        self,
        address: str,
        *,
        credentials: Credentials | None = None,
        deadline_s: float = DEFAULT_DEADLINE_S,
        ca_pem: bytes | None = None,
        transport: Transport | None = None,
        most_bytes: int = MAX_RESPONSE_BYTES,
        around: Sequence[Any] = (),
    ) -> None:
        self.address = address.rstrip("/")
        self._credentials = credentials or Credentials()
        if self._credentials.edge is not None and not is_private_url(self.address):
            raise InvalidArgument(f"an edge token is not sent over plain http to {self.address}; use https")
        self._owned: HTTPTransport | None = None
        if transport is None:
            transport = self._owned = open_transport(self.address, ca_pem)
        http = Client(ConnectOnly(transport, most_bytes))
        common: dict[str, Any] = {
            "accept_compression": (),
            "send_compression": None,
            "read_max_bytes": most_bytes,
            "interceptors": [*around, CancelSafe(), *self._credentials.interceptors()],
            "http_client": http,
        }
        deadline_ms = int(deadline_s * 1000)
        self.controller = ControllerServiceClient(self.address, timeout_ms=deadline_ms, **common)
        self.cluster = ClusterServiceClient(self.address, timeout_ms=deadline_ms, **common)
        self.streams = ClusterServiceClient(self.address, **common)

    async def close(self) -> None:
        """Close the connections, unless the transport was handed in."""
        await self._credentials.close()
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


def keep_loopback_off_proxies() -> None:
    """Extend NO_PROXY by this machine: the transport obeys HTTP_PROXY even for loopback, and only the
    environment turns that off. Call it once, before the first client."""
    present = os.environ.get("NO_PROXY", os.environ.get("no_proxy", ""))
    hosts = [host.strip() for host in present.split(",") if host.strip()]
    wanted = [host for host in ("127.0.0.1", "localhost", "::1") if host not in hosts]
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = ",".join(hosts + wanted)


def is_private_url(url: str) -> bool:
    """Whether a secret may travel to it: encrypted, or not leaving this machine."""
    return urlsplit(url).scheme == "https" or is_loopback_url(url)


def is_loopback_url(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
