"""Answers are shared by those who ask the same, and never outlive a change."""

import asyncio

import pytest

from iris_fed.rpc.shared import MAX_ANSWERS, SharedAnswers


class Source:
    """A value that changes, and how often it was asked for; `gate` holds the answers back."""

    def __init__(self) -> None:
        self.revision = 0
        self.asked = 0
        self.began = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None

    async def read(self) -> int:
        self.asked += 1
        self.began.set()
        found = self.revision
        await self.gate.wait()
        if self.error:
            raise self.error
        return found


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def shared(source: Source) -> SharedAnswers:
    return SharedAnswers(lambda: source.revision)


async def test_all_who_ask_between_two_changes_share_one_computation(source: Source, shared: SharedAnswers) -> None:
    source.gate.clear()
    early = [asyncio.create_task(shared.get("k", source.read)) for _ in range(5)]
    await asyncio.sleep(0)
    source.gate.set()
    assert [await one for one in early] == [0] * 5
    assert await shared.get("k", source.read) == 0
    assert source.asked == 1


async def test_after_a_change_nobody_is_told_what_was_before_it(source: Source, shared: SharedAnswers) -> None:
    source.gate.clear()
    early = asyncio.create_task(shared.get("k", source.read))
    await source.began.wait()
    source.revision += 1
    late = asyncio.create_task(shared.get("k", source.read))
    await asyncio.sleep(0)
    source.gate.set()
    assert (await early, await late) == (0, 1)
    assert await shared.get("k", source.read) == 1


async def test_different_questions_have_different_answers(source: Source, shared: SharedAnswers) -> None:
    await shared.get(("jobs", "alice"), source.read)
    await shared.get(("jobs", "bob"), source.read)
    assert source.asked == 2


async def test_who_goes_away_takes_no_answer_along(source: Source, shared: SharedAnswers) -> None:
    source.gate.clear()
    leaves, stays = [asyncio.create_task(shared.get("k", source.read)) for _ in range(2)]
    await asyncio.sleep(0)
    leaves.cancel()
    await asyncio.gather(leaves, return_exceptions=True)
    source.gate.set()
    assert (await stays, source.asked) == (0, 1)


async def test_a_failure_is_not_kept(source: Source, shared: SharedAnswers) -> None:
    source.error = RuntimeError("disk")
    with pytest.raises(RuntimeError, match="disk"):
        await shared.get("k", source.read)
    source.error = None
    assert (await shared.get("k", source.read), source.asked) == (0, 2)


async def test_more_questions_than_are_kept_are_answered_all_the_same(source: Source, shared: SharedAnswers) -> None:
    for _ in range(2):
        for number in range(MAX_ANSWERS + 3):
            assert await shared.get(number, source.read) == 0
    assert source.asked == MAX_ANSWERS + 3 + 3
