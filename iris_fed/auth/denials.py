"""How many denied calls are written down one by one: whoever is denied can call as often as they like, and the
log is not theirs to fill. Pure; what is left out is counted and told."""

from collections import Counter
from typing import NamedTuple

WINDOW_MS = 60_000
MOST_OF_ONE = 20
MOST_OF_ALL = 200


class Verdict(NamedTuple):
    """`is_last`: further ones of this window are only counted. `left_out`: of the window before, by client, told
    once; "" stands for clients beyond those that were counted one by one."""

    written: bool
    is_last: bool = False
    left_out: tuple[tuple[str, int], ...] = ()


class Denials:
    """By client address, at most MOST_OF_ONE a window, and MOST_OF_ALL of all clients together."""

    def __init__(self) -> None:
        self._since_ms = 0
        self._written: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()

    def judge(self, client: str, now_ms: int) -> Verdict:
        """Of one more denied call. A clock that was set back begins a window of its own."""
        told = self._turn(now_ms) if not 0 <= now_ms - self._since_ms < WINDOW_MS else ()
        if self._written[client] >= MOST_OF_ONE or self._written.total() >= MOST_OF_ALL:
            self._left_out[client if client in self._left_out or len(self._left_out) < MOST_OF_ALL else ""] += 1
            return Verdict(False, left_out=told)
        self._written[client] += 1
        is_last = self._written[client] == MOST_OF_ONE or self._written.total() == MOST_OF_ALL
        return Verdict(True, is_last, told)

    def _turn(self, now_ms: int) -> tuple[tuple[str, int], ...]:
        told = tuple(self._left_out.most_common())
        self._since_ms = now_ms
        self._written.clear()
        self._left_out.clear()
        return told
