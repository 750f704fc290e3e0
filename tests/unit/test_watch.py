"""Waiting for news: positions, bounds, and what a caller may know of it."""

import asyncio

import pytest

from iris_fed.controller.watch import MAX_WAITING, Changes, Watch, Watcher, seen
from iris_fed.signals import EVERYTHING, News, Tidings

LONG_MS = 30_000


async def answer(task: "asyncio.Task[Changes]") -> Changes:
    async with asyncio.timeout(5):
        return await task


def waiting(watcher: Watcher, watch: Watch) -> "asyncio.Task[Changes]":
    return asyncio.create_task(watcher.wait(watch))


async def test_the_first_answer_comes_at_once_and_says_only_where_news_stands() -> None:
    news = News()
    news.publish({"/a/x": "a"})
    first = await Watcher(news, "boot").wait(Watch("u", wait_ms=LONG_MS))
    assert (first.position, first.tidings) == ("boot.0", Tidings())


async def test_what_changed_since_the_position_is_told_as_soon_as_its_group_is() -> None:
    news, first = News(), Watch("u", "boot.0", wait_ms=LONG_MS)
    watcher = Watcher(news, "boot")
    held = waiting(watcher, first)
    await asyncio.sleep(0)
    news.publish({"/a/x": "a"})
    news.publish(peers=True)
    changes = await answer(held)
    assert changes == Changes("boot.2", Tidings({"/a/x": "a"}, peers=True))
    assert await answer(waiting(watcher, first)) == changes


@pytest.mark.parametrize(
    "position", ["other.0", "boot.99", "boot.x", "boot.-1", "boot", "7", f"boot.{'9' * 30}", "boot.²"]
)
async def test_a_position_that_this_process_does_not_know_means_to_look_at_everything(position: str) -> None:
    changes = await Watcher(News(), "boot").wait(Watch("u", position, wait_ms=LONG_MS))
    assert changes == Changes("boot.0", EVERYTHING)


async def test_a_wait_without_news_ends_without_any() -> None:
    changes = await Watcher(News(), "boot").wait(Watch("u", "boot.0", wait_ms=1))
    assert changes == Changes("boot.0", Tidings())


async def test_who_waits_for_one_job_is_left_alone_by_all_others() -> None:
    news = News()
    watcher = Watcher(news, "boot")
    held = waiting(watcher, Watch("u", "boot.0", "/a/x", places=False, wait_ms=LONG_MS))
    other = waiting(watcher, Watch("u", "boot.0", wait_ms=LONG_MS))
    await asyncio.sleep(0)
    news.publish({"/a/y": "a"}, peers=True)
    await answer(other)
    assert not held.done()
    news.publish({"/a/x": "a"}, backends=True)
    assert (await answer(held)).tidings == Tidings({"/a/x": "a"})


async def test_a_stop_answers_everybody_at_once() -> None:
    news = News()
    watcher = Watcher(news, "boot")
    held = [waiting(watcher, Watch("u", "boot.0", wait_ms=LONG_MS)) for _ in range(3)]
    await asyncio.sleep(0)
    assert watcher.waiting == 3
    news.stop()
    assert [(await answer(one)).tidings for one in held] == [Tidings()] * 3
    assert (await answer(waiting(watcher, Watch("u", "boot.0", wait_ms=LONG_MS)))).tidings == Tidings()
    assert watcher.waiting == 0


async def test_one_call_too_many_of_a_caller_lets_its_oldest_go_and_nobody_elses() -> None:
    watcher = Watcher(News(), "boot")
    stranger = waiting(watcher, Watch("v", "boot.0", wait_ms=LONG_MS))
    held = []
    for _ in range(MAX_WAITING):
        held.append(waiting(watcher, Watch("u", "boot.0", wait_ms=LONG_MS)))
        await asyncio.sleep(0)
    held.append(waiting(watcher, Watch("u", "boot.0", wait_ms=LONG_MS)))
    assert (await answer(held[0])).tidings == Tidings()
    assert not any(one.done() for one in [*held[1:], stranger])
    for one in [*held, stranger]:
        one.cancel()
    await asyncio.gather(*held, stranger, return_exceptions=True)
    assert watcher.waiting == 0


async def test_a_caller_that_goes_away_leaves_nothing_behind() -> None:
    watcher = Watcher(News(), "boot")
    held = waiting(watcher, Watch("u", "boot.0", wait_ms=LONG_MS))
    await asyncio.sleep(0)
    held.cancel()
    await asyncio.gather(held, return_exceptions=True)
    assert watcher.waiting == 0


def test_who_sees_only_its_own_hears_of_no_other_roots() -> None:
    told = Tidings({"/a/x": "a", "/b/y": "b", "/a/hub.z": ""}, peers=True)
    assert seen(told, Watch("a", owner="a")).roots == {"/a/x": "a"}
    assert seen(told, Watch("d", owner="")).roots == {}
    assert seen(told, Watch("root")).roots == told.roots
    assert not seen(told, Watch("b", root="/a/x", owner="b", places=False))
