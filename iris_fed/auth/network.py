"""What the address of a caller says: whom a trusted network makes it, and what to call it in the log."""

import ipaddress
from collections.abc import Callable, Collection, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import psutil

from iris_fed.auth.identity import Identity, Role, Source
from iris_fed.auth.people import NETWORK_USER
from iris_fed.errors import Unauthenticated

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

NO_CREDENTIAL = "this request carries no credential: send `Authorization: Bearer <token>`"
_FORWARDING = frozenset({"forwarded", "via", "true-client-ip", "client-ip", "proxy-authorization", "fastly-client-ip"})
_FORWARDING_PREFIXES = (
    *("x-forwarded", "x-real-", "x-client-", "x-cluster-client-", "x-original-", "x-remote-", "x-rewrite-", "x-proxy"),
    *("x-goog-", "x-cloud-trace-", "x-appengine-", "x-envoy-", "x-amz", "x-azure-", "cf-", "cdn-", "fly-"),
)


def own_addresses() -> Collection[Address]:
    """Every address of this machine, now."""
    found = [parse_address(one.address) for entries in psutil.net_if_addrs().values() for one in entries]
    return {address for address in found if address is not None}


class NetworkTrust:
    """Trusts `cidrs` to be who they are, on direct connections only.

    `proxies` never count: whoever asks stands behind them. `runs_tasks`: tasks run on this machine, so
    none of its own addresses counts either.
    """

    def __init__(
        self,
        cidrs: Sequence[Network] = (),
        proxies: Sequence[Network] = (),
        role: Role = Role.USER,
        *,
        runs_tasks: bool = True,
        own: Callable[[], Collection[Address]] = own_addresses,
    ) -> None:
        self._cidrs = tuple(cidrs)
        self._proxies = tuple(proxies)
        self._role = role
        self._runs_tasks = runs_tasks
        self._own = own

    def identify(self, peer: str, headers: Mapping[str, str]) -> Identity:
        """`peer` is the other end of the connection, `host:port`; header names are lower case. Raises
        Unauthenticated."""
        address = parse_address(peer.rpartition(":")[0])
        if address is None or not _within(address, self._cidrs):
            raise Unauthenticated(NO_CREDENTIAL)
        if _within(address, self._proxies) or any(_tells_of_a_proxy(name) for name in headers):
            raise Unauthenticated(f"{NO_CREDENTIAL}; its address counts only on a direct connection")
        if self._runs_tasks and (address.is_loopback or address.is_unspecified or address in self._own()):
            raise Unauthenticated(f"{NO_CREDENTIAL}; this machine's own addresses do not count, since tasks run on it")
        user = NETWORK_USER if self._role is Role.USER else ""
        return Identity(f"{NETWORK_USER}:{address}", user, self._role, source=Source.NETWORK)


def is_local(peer: str, headers: Mapping[str, str]) -> bool:
    """Whether it asks from this machine itself, with nobody in between: `peer` is `host:port`, header names
    are lower case."""
    address = parse_address(peer.rpartition(":")[0])
    return address is not None and address.is_loopback and not any(_tells_of_a_proxy(name) for name in headers)


def client_address(peer: str, forwarded_for: str, proxies: Sequence[Network]) -> str:
    """Where a request comes from, for people to read: the address of `peer` (`host:port`), or, behind proxies
    of ours, the last one in `forwarded_for` (X-Forwarded-For) that is none of them."""
    address = parse_address(peer.rpartition(":")[0])
    if address is None:
        return peer
    for told in reversed(forwarded_for.split(",")):
        if not _within(address, proxies):
            break
        before = parse_address(told.strip())
        if before is None:
            break
        address = before
    return str(address)


def parse_address(text: str) -> Address | None:
    """Without brackets and zone; an IPv4 address in IPv6's clothes is what it is. None = no address."""
    try:
        address = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _within(address: Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)


def _tells_of_a_proxy(header: str) -> bool:
    return header in _FORWARDING or header.startswith(_FORWARDING_PREFIXES)
