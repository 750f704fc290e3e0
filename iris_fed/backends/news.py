"""What a backend has to tell and nobody has asked for yet: bounded by what lives, not by time."""

import asyncio

from iris_fed.backends.base import Observation, Sampled


class News:
    """Per attempt, in order; of several samples only the last is kept."""

    def __init__(self) -> None:
        self._by_uid: dict[str, list[Observation]] = {}
        self._any = asyncio.Event()

    def add(self, observation: Observation) -> None:
        pending = self._by_uid.setdefault(observation.attempt_uid, [])
        if isinstance(observation, Sampled):
            pending[:] = [one for one in pending if not isinstance(one, Sampled)]
        if observation not in pending:
            pending.append(observation)
        self._any.set()

    async def take(self) -> tuple[Observation, ...]:
        """Wait until there is something, then all of it."""
        await self._any.wait()
        self._any.clear()
        told = tuple(one for pending in self._by_uid.values() for one in pending)
        self._by_uid.clear()
        return told
