"""A keeper's event loop: readable and writable files, dead children, timers. One thread.

Standard library only: it runs beside the tasks.
"""

import heapq
import itertools
import os
import selectors
import signal
import time
import traceback
from collections.abc import Callable
from types import FrameType

_WAKE_BYTES = 4096
_MAX_ERRORS = 1000


class Loop:
    """Calls back until `stop`. An error in a callback is printed and costs only that call; a stream of
    them ends the loop."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._running = True
        self._errors = 0

    def watch_signals(self, on_death: Callable[[], None], on_term: Callable[[], None]) -> None:
        """`on_death` after any number of children died, `on_term` when somebody asks us to leave."""
        read_fd, write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, _nothing)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

        def woken() -> None:
            numbers = os.read(read_fd, _WAKE_BYTES)
            on_death()
            if signal.SIGTERM in numbers:
                on_term()

        self.watch(read_fd, selectors.EVENT_READ, woken)

    def watch(self, fd: int, events: int, call: Callable[[], None]) -> None:
        """Start, or change, what is called when `fd` is ready for `events`."""
        try:
            self._selector.modify(fd, events, call)
        except KeyError:
            self._selector.register(fd, events, call)

    def unwatch(self, fd: int) -> None:
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (time.monotonic() + delay_s, next(self._order), call))

    def stop(self) -> None:
        self._running = False

    def run(self) -> None:
        while self._running:
            for key, _ in self._selector.select(self._pause_s()):
                # An earlier callback of this round may have let go of the file.
                if self._selector.get_map().get(key.fd) is key:
                    self._call(key.data)
            while self._timers and self._timers[0][0] <= time.monotonic():
                self._call(heapq.heappop(self._timers)[2])

    def _call(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:
            traceback.print_exc()
            self._errors += 1
            if self._errors > _MAX_ERRORS:
                raise

    def _pause_s(self) -> float | None:
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None


def _nothing(number: int, frame: FrameType | None) -> None:
    """A handler must exist for the wake-up file to be written."""
