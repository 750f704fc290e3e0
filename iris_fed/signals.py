"""Wakes whoever waits for news of a job in this process; an event, never a poll."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager


class JobSignals:
    """News by job uid. Register first, then look, then wait: nothing falls between."""

    def __init__(self) -> None:
        self._waiting: dict[int, set[asyncio.Event]] = defaultdict(set)

    def publish(self, job_uids: Iterable[int]) -> None:
        """Something about these jobs changed and is committed."""
        for uid in job_uids:
            for event in self._waiting.get(uid, ()):
                event.set()

    @asynccontextmanager
    async def watch(self, job_uid: int) -> AsyncIterator[asyncio.Event]:
        """An event that is set at each change; clear it before looking."""
        event = asyncio.Event()
        self._waiting[job_uid].add(event)
        try:
            yield event
        finally:
            self._waiting[job_uid].discard(event)
            if not self._waiting[job_uid]:
                del self._waiting[job_uid]
