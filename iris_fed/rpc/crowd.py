"""How many calls of one caller are under way."""

from collections import Counter

from iris_fed.auth.identity import Identity
from iris_fed.errors import ResourceExhausted


class Crowd:
    """Counts by caller: a hung or greedy one takes nobody else's place. `most` of each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._under_way: Counter[tuple[str, str]] = Counter()

    def enter(self, caller: Identity) -> None:
        """Raises ResourceExhausted. `leave` once the call is over, whatever became of it."""
        key = _key(caller)
        if self._under_way[key] >= self._most:
            raise ResourceExhausted(
                f"{caller.principal} has {self._most} calls under way here; wait for some to end "
                "(limits.calls_per_caller)"
            )
        self._under_way[key] += 1

    def leave(self, caller: Identity) -> None:
        key = _key(caller)
        self._under_way[key] -= 1
        if self._under_way[key] <= 0:
            del self._under_way[key]


def _key(caller: Identity) -> tuple[str, str]:
    return caller.principal, caller.role.value
