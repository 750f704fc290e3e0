"""Where a controller is reached, and what it answers to."""

import re
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Annotated

from pydantic import AfterValidator, Field

from iris_fed.config.sections import Section, Whole, is_loopback

MAX_NETWORKS = 256
_PREFIX = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
_HOST = re.compile(r"[a-z0-9_]([a-z0-9._-]{0,251}[a-z0-9])?")


def check_network(text: str) -> str:
    """An address or a network of addresses, as `10.0.0.0/8`. Raises ValueError."""
    try:
        return str(ip_network(text))
    except ValueError:
        raise ValueError(f"{text[:80]!r} is no network like 10.1.0.0/16, nor an address") from None


def networks(texts: list[str]) -> tuple[IPv4Network | IPv6Network, ...]:
    """Of checked settings."""
    return tuple(ip_network(text) for text in texts)


def _check_host_name(name: str) -> str:
    lower = name.lower()
    if _HOST.fullmatch(lower):
        return lower
    try:
        return str(IPv6Address(lower.strip("[]")))
    except ValueError:
        raise ValueError(f"{name[:80]!r} is no host: a name or an address, without scheme, port and `*`") from None


def _check_path_prefix(prefix: str) -> str:
    bare = prefix.rstrip("/")
    if bare and not _PREFIX.fullmatch(bare):
        raise ValueError(f"{prefix[:80]!r} is no path like /iris: parts of letters, digits and ._~- behind slashes")
    return bare


CidrText = Annotated[str, AfterValidator(check_network)]


class ListenSettings(Section):
    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        max_length=253,
        description="Address to listen on. One that other machines reach needs a way to tell who asks (`auth`).",
    )
    port: Whole = Field(default=8478, ge=0, le=65_535, description="TCP port; 0 = any free one.")
    allowed_hosts: list[Annotated[str, AfterValidator(_check_host_name)]] = Field(
        default=[],
        max_length=64,
        description="Names under which this controller is asked, besides those of loopback and `host` itself: "
        "what stands in the URL, without port. Requests that name another host are refused.",
    )
    path_prefix: Annotated[str, AfterValidator(_check_path_prefix)] = Field(
        default="",
        max_length=256,
        description="Path below which a proxy shows this controller, as `/iris`, whether or not the proxy strips it: "
        "page and RPCs answer there too. Empty = none.",
    )
    trusted_proxies: list[CidrText] = Field(
        default=[],
        max_length=MAX_NETWORKS,
        description="Proxies whose `X-Forwarded-For` is believed, for the client's address in the log only.",
    )
    metrics_port: Whole | None = Field(
        default=None,
        ge=0,
        le=65_535,
        description="Port of loopback on which `/metrics` alone is answered, without a credential; 0 = any free "
        "one, told in the log. Empty = none. On `port` it is answered to who may see the peers.",
    )

    @property
    def is_exposed(self) -> bool:
        """Whether other machines can reach it."""
        return not is_loopback(self.host)

    @property
    def own_hosts(self) -> frozenset[str]:
        """Every name that is its own."""
        specific = {self.host.lower()} - {"0.0.0.0", "::"}
        return frozenset({"localhost", "127.0.0.1", "::1", *specific, *self.allowed_hosts})
