"""An event loop whose time is a number: with nothing ready it jumps to the next timer.

Nothing ever waits for real, no thread is used, and whoever runs a simulation gets control between
any two iterations.
"""

import asyncio
import itertools
import selectors
from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack

from anyio._backends import _asyncio as anyio_asyncio

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
RESOLUTION_S = 1e-6
MAX_STEPS_AT_ONCE = 50_000
"""Iterations without any time passing: more is a loop that spins."""
SelectorEvents = list[tuple[selectors.SelectorKey, int]]


class Deadlock(Exception):
    """Nothing is ready and no timer is set: whoever waits would wait for ever."""


class Spinning(Exception):
    """Time stands still while something keeps running."""


class NumberedTask(asyncio.Task[T]):
    """Hashed by its number, so that sets of tasks are walked in the same order in every process."""

    _numbers = itertools.count(1)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._number = next(self._numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number


class NumberedEvent(asyncio.Event):
    """The same for events."""

    _numbers = itertools.count(1)

    def __init__(self) -> None:
        self._number = next(self._numbers)
        super().__init__()

    def __hash__(self) -> int:
        return self._number


class NumberedScope(anyio_asyncio.CancelScope):
    """The same for what anyio cancels together."""

    __slots__ = ("_number",)
    _numbers = itertools.count(1)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._number = next(self._numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number


def number_everything() -> None:
    """From now on this process makes numbered events and scopes; there is no other place to say so."""
    setattr(asyncio, "Event", NumberedEvent)  # noqa: B010
    setattr(anyio_asyncio, "CancelScope", NumberedScope)  # noqa: B010


class _JumpingSelector(selectors.SelectSelector):
    """Asks nobody for news; instead of waiting, time passes."""

    def __init__(self, step: Callable[[float | None], None]) -> None:
        super().__init__()
        self._step = step

    def select(self, timeout: float | None = None) -> SelectorEvents:
        self._step(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """`on_step` is called before each iteration; it returns True when it made something ready."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._since_jump = 0
        self.steps = 0
        self.on_step: Callable[[], bool] = lambda: False
        super().__init__(_JumpingSelector(self._step))
        self._clock_resolution = RESOLUTION_S
        self.set_task_factory(_numbered)

    def time(self) -> float:
        return self._now_s

    def run_in_executor(self, executor: Any, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> "asyncio.Future[T]":
        """Here and now."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _step(self, timeout: float | None) -> None:
        self.steps += 1
        self._since_jump += 1
        if self._since_jump > MAX_STEPS_AT_ONCE:
            raise Spinning(f"{MAX_STEPS_AT_ONCE} iterations at {self._now_s:.6f} s: {_names(self)}")
        if self.on_step() or timeout == 0:
            return
        if timeout is None:
            raise Deadlock(_names(self))
        self._now_s += timeout
        self._since_jump = 0


def _numbered(loop: asyncio.AbstractEventLoop, work: Any, context: Context | None = None) -> "asyncio.Task[Any]":
    return NumberedTask(work, loop=loop, context=context)


def _names(loop: asyncio.AbstractEventLoop) -> str:
    tasks = sorted(asyncio.all_tasks(loop), key=hash)
    return ", ".join(f"{task.get_name()} ({task.get_coro().__qualname__})" for task in tasks)  # type: ignore[union-attr]
