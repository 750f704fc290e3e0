"""Free ports of this machine. Standard library only."""

import contextlib
import socket
from collections.abc import Collection, Sequence

_MAX_PORT_TRIES = 1000


def free_ports(host: str, names: Sequence[str], taken: Collection[int]) -> dict[str, int]:
    """A free TCP port for each name, none of `taken`. Blocks on name resolution; raises OSError."""
    family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
    ports: dict[str, int] = {}
    with contextlib.ExitStack() as held:
        for _ in range(_MAX_PORT_TRIES):
            if len(ports) == len(names):
                return ports
            listener = held.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listener.bind((host, 0))
            port = int(listener.getsockname()[1])
            if port not in taken:
                ports[names[len(ports)]] = port
    raise OSError(f"no {len(names)} free ports on {host}")
