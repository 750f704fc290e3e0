"""Loops that a crash does not end, under a clock that jumps to whatever is waited for."""

import asyncio
import selectors
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any, TypeVar

import anyio
import pytest

from iris_fed.supervise import FIRST_PAUSE_S, MAX_PAUSE_S, Wakeup, supervise

T = TypeVar("T")


class JumpingSelector(selectors.SelectSelector):
    """Never waits: what it was told to wait is added to the time."""

    now = 0.0

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


def test_a_loop_that_keeps_crashing_is_restarted_ever_later_up_to_a_bound() -> None:
    starts: list[float] = []

    async def crashing() -> None:
        starts.append(anyio.current_time())
        if len(starts) < 15:
            raise RuntimeError("again")

    run(supervise("test", crashing))
    pauses = [later - earlier for earlier, later in pairwise(starts)]
    expected = [min(MAX_PAUSE_S, FIRST_PAUSE_S * 2**n) for n in range(14)]
    assert pauses == pytest.approx(expected)


def test_a_loop_that_ran_well_for_a_while_is_restarted_soon() -> None:
    starts: list[float] = []

    async def crashing() -> None:
        starts.append(anyio.current_time())
        if len(starts) == 5:
            await anyio.sleep(MAX_PAUSE_S + 1)
        if len(starts) < 7:
            raise RuntimeError("again")

    run(supervise("test", crashing))
    assert starts[5] - starts[4] == pytest.approx(MAX_PAUSE_S + 1 + FIRST_PAUSE_S)
    assert starts[4] - starts[3] == pytest.approx(FIRST_PAUSE_S * 8)


def test_a_crash_of_one_loop_does_not_touch_another() -> None:
    async def main() -> list[str]:
        beats: list[str] = []

        async def bad() -> None:
            beats.append("bad")
            raise ValueError("boom")

        async def good() -> None:
            for _ in range(3):
                await anyio.sleep(1)
                beats.append("good")

        async with anyio.create_task_group() as group:
            group.start_soon(supervise, "bad", bad)
            await supervise("good", good)
            group.cancel_scope.cancel()
        return beats

    beats = run(main())
    assert beats.count("good") == 3
    assert beats.count("bad") > 3


def test_a_cancelled_loop_is_not_restarted() -> None:
    async def main() -> int:
        starts = 0

        async def endless() -> None:
            nonlocal starts
            starts += 1
            await anyio.sleep_forever()

        with anyio.move_on_after(100):
            await supervise("test", endless)
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
