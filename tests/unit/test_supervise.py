"""Loops that a crash does not end, under a clock that jumps to whatever is waited for."""

import asyncio
import contextlib
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from itertools import pairwise
from typing import Any, TypeVar

import anyio
import pytest

from iris_fed.supervise import FIRST_PAUSE_S, MAX_PAUSE_S, SECOND_LOOK_S, Loops, Pulse, Wakeup

T = TypeVar("T")


class JumpingSelector(selectors.SelectSelector):
    """Never waits: what it was told to wait is added to the time."""

    now = 0.0

    def freeze(self, seconds: float) -> None:
        """As if the process had been stopped for so long."""
        self.now += seconds

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nothing is left to wait for"
        self.now += max(0.0, timeout)
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.jumping = JumpingSelector()
        super().__init__(self.jumping)

    def time(self) -> float:
        return self.jumping.now


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(main)


async def supervised(loop: Callable[[Pulse], Awaitable[None]]) -> None:
    await Loops().supervise("test", loop)


STUCK_AFTER_S = 10.0


class Watched:
    """A supervised loop whose `turns` say what it does; each start of it takes the next."""

    def __init__(self, *turns: Callable[[Pulse], Awaitable[None]]) -> None:
        self.loops = Loops(STUCK_AFTER_S)
        self.starts: list[float] = []
        self._turns = iter(turns)

    async def run(self, pulse: Pulse) -> None:
        self.starts.append(anyio.current_time())
        await next(self._turns)(pulse)

    async def at(self, *moments: float) -> list[str]:
        """What is reported of it at these moments."""
        found = []
        async with anyio.create_task_group() as group:
            group.start_soon(self.loops.supervise, "test", self.run)
            for moment in moments:
                await anyio.sleep(moment - anyio.current_time())
                found.append(self.problem)
            group.cancel_scope.cancel()
        return found

    @property
    def problem(self) -> str:
        (report,) = self.loops.report()
        return report.problem


async def hangs(pulse: Pulse) -> None:
    pulse.beat(5)
    await anyio.sleep_forever()


async def ticks(pulse: Pulse) -> None:
    while True:
        pulse.beat(5)
        await anyio.sleep(5)


async def crashes(pulse: Pulse) -> None:
    raise RuntimeError("boom")


def test_a_loop_that_keeps_crashing_is_restarted_ever_later_up_to_a_bound() -> None:
    starts: list[float] = []

    async def crashing(_: Pulse) -> None:
        starts.append(anyio.current_time())
        if len(starts) < 15:
            raise RuntimeError("again")

    run(supervised(crashing))
    pauses = [later - earlier for earlier, later in pairwise(starts)]
    expected = [min(MAX_PAUSE_S, FIRST_PAUSE_S * 2**n) for n in range(14)]
    assert pauses == pytest.approx(expected)


def test_a_loop_that_ran_well_for_a_while_is_restarted_soon() -> None:
    starts: list[float] = []

    async def crashing(pulse: Pulse) -> None:
        starts.append(anyio.current_time())
        if len(starts) == 5:
            pulse.beat(MAX_PAUSE_S + 1)
            await anyio.sleep(MAX_PAUSE_S + 1)
        if len(starts) < 7:
            raise RuntimeError("again")

    run(supervised(crashing))
    assert starts[5] - starts[4] == pytest.approx(MAX_PAUSE_S + 1 + FIRST_PAUSE_S)
    assert starts[4] - starts[3] == pytest.approx(FIRST_PAUSE_S * 8)


def test_a_crash_of_one_loop_does_not_touch_another() -> None:
    async def main() -> list[str]:
        beats: list[str] = []

        async def bad(pulse: Pulse) -> None:
            beats.append("bad")
            raise ValueError("boom")

        async def good(pulse: Pulse) -> None:
            for _ in range(3):
                await anyio.sleep(1)
                beats.append("good")

        loops = Loops()
        async with anyio.create_task_group() as group:
            group.start_soon(loops.supervise, "bad", bad)
            await loops.supervise("good", good)
            group.cancel_scope.cancel()
        return beats

    beats = run(main())
    assert beats.count("good") == 3
    assert beats.count("bad") > 3


def test_a_cancelled_loop_is_not_restarted() -> None:
    async def main() -> int:
        starts = 0

        async def endless(pulse: Pulse) -> None:
            nonlocal starts
            starts += 1
            pulse.beat(1_000)
            await anyio.sleep_forever()

        with anyio.move_on_after(100):
            await Loops().supervise("test", endless)
        return starts

    assert run(main()) == 1


def test_a_wakeup_before_the_wait_is_not_lost_and_many_are_one() -> None:
    async def main() -> list[bool]:
        wake = Wakeup()
        wake()
        wake()
        return [await wake.wait(5), await wake.wait(5), await wake.wait(0)]

    assert run(main()) == [True, False, False]


def test_a_wait_ends_when_it_is_woken_or_its_time_is_over() -> None:
    async def main() -> tuple[bool, float, bool, float]:
        wake = Wakeup()
        asyncio.get_running_loop().call_later(2, wake)
        woken, at = await wake.wait(10), anyio.current_time()
        return woken, at, await wake.wait(10), anyio.current_time()

    first, at, second, end = run(main())
    assert (first, second) == (True, False)
    assert [at, end] == pytest.approx([2, 12])


def test_a_wakeup_without_a_moment_to_wait_is_still_seen() -> None:
    async def main() -> bool:
        wake = Wakeup()
        wake()
        return await wake.wait(-1)

    assert run(main())


# --- what hangs ---


def test_a_loop_that_hangs_is_reported_stopped_and_started_again() -> None:
    watched = Watched(hangs, ticks)
    late = 5 + STUCK_AFTER_S
    assert run(watched.at(late - 0.1, late + 0.1, late + SECOND_LOOK_S + 1, late + 10)) == [
        "",
        "is stuck",
        "was stuck",
        "",
    ]
    assert watched.starts == pytest.approx([0, late + SECOND_LOOK_S + FIRST_PAUSE_S])


def test_a_loop_that_waits_as_long_as_it_said_is_well() -> None:
    async def patient(pulse: Pulse) -> None:
        for _ in range(3):
            pulse.beat(1_000)
            await anyio.sleep(1_000 + STUCK_AFTER_S - 0.1)
        await hangs(pulse)

    watched = Watched(patient)
    assert run(watched.at(900, 1_005, 2_900, 3_000)) == [""] * 4
    assert len(watched.starts) == 1


def test_a_loop_that_never_begins_is_stuck_too() -> None:
    async def silent(_: Pulse) -> None:
        await anyio.sleep_forever()

    assert run(Watched(silent).at(STUCK_AFTER_S - 0.1, STUCK_AFTER_S + 0.1)) == ["", "is stuck"]


def test_a_crashed_loop_is_reported_until_it_has_come_round_again() -> None:
    watched = Watched(crashes, crashes, ticks)
    assert run(watched.at(0.05, 0.25, 0.35, 4, 6)) == ["crashed (RuntimeError)"] * 4 + [""]
    assert len(watched.starts) == 3


def test_a_loop_that_does_not_let_go_is_never_run_twice_at_once_and_stays_reported() -> None:
    async def stubborn(pulse: Pulse) -> None:
        while anyio.current_time() < 100:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(100)

    watched = Watched(stubborn, ticks)
    assert run(watched.at(50, 99, 115)) == ["is stuck", "is stuck", ""]
    assert watched.starts[1] >= 100


def test_a_process_that_was_frozen_finds_no_loop_stuck() -> None:
    watched = Watched(ticks)

    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        loop.call_later(12, loop.jumping.freeze, 3_600)
        return await watched.at(11, 3_600 + 30)

    assert run(main()) == ["", ""]
    assert len(watched.starts) == 1


def test_a_cancelled_supervisor_takes_its_loop_along() -> None:
    async def main() -> bool:
        ended = False

        async def endless(pulse: Pulse) -> None:
            nonlocal ended
            try:
                pulse.beat(1_000)
                await anyio.sleep_forever()
            finally:
                ended = True

        with anyio.move_on_after(1):
            await supervised(endless)
        return ended

    assert run(main())
