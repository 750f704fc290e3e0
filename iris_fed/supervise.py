"""Background loops that a crash does not end, and an event that wakes them."""

import asyncio
from collections.abc import Awaitable, Callable

import anyio

from iris_fed.telemetry import get_logger

FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 30.0

log = get_logger(__name__)


class Wakeup:
    """Tells one waiting loop that there is something to do; many calls are one."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def __call__(self) -> None:
        self._event.set()

    async def wait(self, timeout_s: float) -> bool:
        """Wait to be woken; False when the time ran out first."""
        with anyio.move_on_after(max(0.0, timeout_s)):
            await self._event.wait()
        woken = self._event.is_set()
        self._event.clear()
        return woken


async def supervise(name: str, loop: Callable[[], Awaitable[None]]) -> None:
    """Run `loop` for ever; a crash is logged and the loop restarted, ever later while it keeps crashing."""
    pause_s = FIRST_PAUSE_S
    while True:
        started = anyio.current_time()
        try:
            await loop()
            return
        except Exception as error:
            log.error("loop.crashed", loop=name, exc_info=error)
        if anyio.current_time() - started > MAX_PAUSE_S:
            pause_s = FIRST_PAUSE_S
        await anyio.sleep(pause_s)
        pause_s = min(MAX_PAUSE_S, pause_s * 2)
