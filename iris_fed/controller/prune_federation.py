"""Removes what nobody needs any more for federation: rows of the changelog, and handles.

Every transaction looks at BATCH rows at most; between two of them others get their turn.
"""

from collections.abc import Callable, Mapping
from functools import partial

from iris_fed.store.changelog_prune import (
    MAX_AGE_MS,
    SUPERSEDED_AFTER_MS,
    bound_of,
    remove_superseded,
    remove_up_to,
    requesters_with_rows,
)
from iris_fed.store.db import Tx
from iris_fed.store.handles_prune import START, Place, remove_received, remove_sent
from iris_fed.store.requesters import Heard, save_heard
from iris_fed.store.runtime import Runtime

Remover = Callable[[Tx, Place, int, int], Place]

BATCH = 1_000
MAX_BATCHES = 200
"""In one round, of each requester's rows and of superseded ones: the rest waits for the next."""
MAX_HANDLE_BATCHES = 5


class FederationPruner:
    """`heard` tells how far each requester has read."""

    def __init__(self, runtime: Runtime, heard: Callable[[], Mapping[str, Heard]]) -> None:
        self._runtime = runtime
        self._heard = heard
        self._superseded_to = 0
        self._handles: dict[Remover, Place] = {}

    async def round(self, now_ms: int) -> None:
        heard = self._heard()
        if heard:
            await self._runtime.db.write(lambda tx: save_heard(tx, heard))
        told = frozenset(one.told_seq for one in heard.values())
        for requester in await self._runtime.db.read(requesters_with_rows):
            await self._rows_of(requester, told, now_ms)
        await self._superseded(told, now_ms)
        for remove in (remove_sent, remove_received):
            await self._closed_handles(remove, now_ms)

    async def _rows_of(self, requester: str, told: frozenset[int], now_ms: int) -> None:
        bound = await self._runtime.db.read(lambda tx: bound_of(tx, requester, now_ms - MAX_AGE_MS))
        remove = partial(remove_up_to, requester=requester, bound=bound, told=told, limit=BATCH)
        for _ in range(MAX_BATCHES):
            if await self._runtime.db.write(remove) < BATCH:
                break

    async def _superseded(self, told: frozenset[int], now_ms: int) -> None:
        """Each row is looked at once in the life of this process."""
        before_ms = now_ms - SUPERSEDED_AFTER_MS
        for _ in range(MAX_BATCHES):
            remove = partial(
                remove_superseded, after_seq=self._superseded_to, before_ms=before_ms, told=told, limit=BATCH
            )
            reached = await self._runtime.db.write(remove)
            if reached == self._superseded_to:
                break
            self._superseded_to = reached

    async def _closed_handles(self, remove: Remover, now_ms: int) -> None:
        """Goes on where the round before stopped: many may have to stay."""
        place = self._handles.get(remove, START)
        for _ in range(MAX_HANDLE_BATCHES):
            place = await self._look(remove, place, now_ms)
            if place == START:
                break
        self._handles[remove] = place

    async def _look(self, remove: Remover, after: Place, now_ms: int) -> Place:
        return await self._runtime.db.write(lambda tx: remove(tx, after, now_ms, BATCH))
