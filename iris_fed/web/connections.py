"""How many connections are open, in all and from one address."""

from collections import Counter
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address


class Connections:
    """`most` in all, `per_address` from each address but those of `proxies`, behind which many stand."""

    def __init__(
        self, most: int = 4_096, per_address: int = 512, proxies: Sequence[IPv4Network | IPv6Network] = ()
    ) -> None:
        self._most = most
        self._per_address = per_address
        self._proxies = tuple(proxies)
        self._open: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Whether there was room; then `leave` follows."""
        if self._open.total() >= self._most:
            return False
        if self._open[address] >= self._per_address and not self._is_proxy(address):
            return False
        self._open[address] += 1
        return True

    def leave(self, address: str) -> None:
        self._open[address] -= 1
        if self._open[address] <= 0:
            del self._open[address]

    def _is_proxy(self, address: str) -> bool:
        try:
            known = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        return any(known in network for network in self._proxies)
