"""Background loops that neither a crash nor a hang ends, what is known of them, and an event that wakes them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

from iris_fed.telemetry import get_logger

FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 30.0
STUCK_AFTER_S = 30.0
SECOND_LOOK_S = 1.0
"""A process that was frozen finds all its loops late at once; they get this long to show that they go on."""

FIRST_CANCEL_S = 0.01

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


class Pulse:
    """One loop's signs of life. `slack_s` is added to whatever the loop says that it may take."""

    def __init__(self, slack_s: float) -> None:
        self._slack_s = slack_s
        self._beats = 0
        self.restarts = 0
        self.trouble = ""
        self.last_s = anyio.current_time()
        self.deadline_s = self.last_s + slack_s

    def beat(self, within_s: float = 0.0) -> None:
        """Here is progress; the next follows in `within_s` seconds at most, intended waits included."""
        self._beats += 1
        if self._beats > 1:
            # The first says only that it was started again.
            self.trouble = ""
        self._note(within_s)

    def start_again(self, trouble: str) -> None:
        """The loop was restarted because of `trouble`, which stands until it has come round once."""
        self._beats = 0
        self.restarts += 1
        self.trouble = trouble

    def _note(self, within_s: float) -> None:
        self.last_s = anyio.current_time()
        self.deadline_s = self.last_s + within_s + self._slack_s

    def allow_start(self) -> None:
        """The time for the first beat runs from now."""
        self.deadline_s = anyio.current_time() + self._slack_s

    @property
    def is_late(self) -> bool:
        return anyio.current_time() >= self.deadline_s


@dataclass(frozen=True, slots=True)
class LoopReport:
    """`problem` '' = it is well. `quiet_s`: seconds since its last progress."""

    name: str
    problem: str
    quiet_s: float
    restarts: int


Loop = Callable[[Pulse], Awaitable[None]]


class Loops:
    """Keeps loops running, and knows how each is.

    A loop calls `beat` on its pulse whenever it has made progress, saying how long the next step
    may take. One that is `stuck_after_s` later than that is cancelled and started again; one that
    does not let go when cancelled is not started beside itself: it stays reported.
    """

    def __init__(self, stuck_after_s: float = STUCK_AFTER_S) -> None:
        self._stuck_after_s = stuck_after_s
        self._pulses: dict[str, Pulse] = {}

    async def supervise(self, name: str, loop: Loop) -> None:
        """Run `loop` for ever; when it crashes or hangs it is logged and restarted, ever later while that goes on."""
        pulse = self._pulses[name] = Pulse(self._stuck_after_s)
        pause_s = FIRST_PAUSE_S
        try:
            while True:
                started = anyio.current_time()
                trouble = await self._run(name, loop, pulse)
                if not trouble:
                    return
                pulse.start_again(trouble)
                if anyio.current_time() - started > MAX_PAUSE_S:
                    pause_s = FIRST_PAUSE_S
                await anyio.sleep(pause_s)
                pause_s = min(MAX_PAUSE_S, pause_s * 2)
        finally:
            del self._pulses[name]

    def report(self) -> tuple[LoopReport, ...]:
        """Every loop, by name."""
        now = anyio.current_time()
        return tuple(
            LoopReport(
                name,
                pulse.trouble or ("is stuck" if pulse.is_late else ""),
                max(0.0, now - pulse.last_s),
                pulse.restarts,
            )
            for name, pulse in sorted(self._pulses.items())
        )

    async def _run(self, name: str, loop: Loop, pulse: Pulse) -> str:
        """Until it ends; why it has to be started again, '' = it is done."""
        pulse.allow_start()
        task = asyncio.ensure_future(loop(pulse))
        try:
            stuck = not await _ends_or_ticks(task, pulse)
            if stuck:
                pulse.trouble = "is stuck"
                log.error("loop.stuck", loop=name, quiet_s=round(anyio.current_time() - pulse.last_s, 1))
            await _end(task)
        finally:
            with anyio.CancelScope(shield=True):
                await _end(task)
        if stuck or task.cancelled():
            return "was stuck" if stuck else "was cancelled"
        error = task.exception()
        if error is None:
            return ""
        log.error("loop.crashed", loop=name, exc_info=error)
        return f"crashed ({type(error).__name__})"


async def _ends_or_ticks(task: "asyncio.Future[None]", pulse: Pulse) -> bool:
    """Returns True when the task has ended, False when its pulse has stopped."""
    while True:
        await asyncio.wait({task}, timeout=max(0.0, pulse.deadline_s - anyio.current_time()))
        if pulse.is_late:
            await asyncio.wait({task}, timeout=SECOND_LOOK_S)
        if task.done():
            return True
        if pulse.is_late:
            return False


async def _end(task: "asyncio.Future[None]") -> None:
    """Cancel it until it has ended: a library may take a cancel for its own and go on."""
    pause_s = FIRST_CANCEL_S
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=pause_s)
        pause_s = min(1.0, pause_s * 2)
