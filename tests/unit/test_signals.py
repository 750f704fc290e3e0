"""News of a job reaches whoever waits for it, and nobody else."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from iris_fed.signals import EVERYTHING, GROUP_S, MAX_GROUPS, MAX_ROOTS, JobSignals, News, Tidings


async def test_news_reaches_everyone_who_watches_that_job_and_nobody_else() -> None:
    signals = JobSignals()
    async with signals.watch(1) as first, signals.watch(1) as second, signals.watch(2) as other:
        signals.publish([1, 3])
        assert first.is_set()
        assert second.is_set()
        assert not other.is_set()


async def test_news_between_registering_and_looking_is_not_lost() -> None:
    signals = JobSignals()
    async with signals.watch(1) as news:
        news.clear()
        signals.publish([1])
        await news.wait()


async def test_who_stopped_watching_is_forgotten_and_those_left_still_hear() -> None:
    signals = JobSignals()
    async with signals.watch(1) as stays:
        async with signals.watch(1) as leaves:
            pass
        signals.publish([1])
        assert stays.is_set()
        assert not leaves.is_set()
    signals.publish([1])
    async with signals.watch(1) as later:
        assert not later.is_set()


class HandClock:
    """Seconds, moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_news_is_told_as_one_group_once_a_moment_has_passed_since_its_first() -> None:
    clock = HandClock()
    news = News(clock)
    news.publish({"/a/x": "a"})
    clock.now += GROUP_S * 0.9
    news.publish({"/a/y": "a"}, backends=True)
    assert not news.since(0)
    clock.now += GROUP_S * 0.2
    assert news.since(0) == Tidings({"/a/x": "a", "/a/y": "a"}, backends=True)
    assert not news.since(news.told)


def test_each_position_hears_what_was_told_after_it() -> None:
    clock = HandClock()
    news = News(clock)
    positions = []
    for name in ("/a/x", "/a/y", "/a/z"):
        positions.append(news.told)
        news.publish({name: "a"})
        clock.now += GROUP_S
        assert name in news.since(positions[-1]).roots
    assert [sorted(news.since(position).roots) for position in positions] == [
        ["/a/x", "/a/y", "/a/z"],
        ["/a/y", "/a/z"],
        ["/a/z"],
    ]


def test_of_many_roots_none_is_named() -> None:
    clock = HandClock()
    news = News(clock)
    news.publish({f"/a/{number}": "a" for number in range(MAX_ROOTS)})
    news.publish({"/a/one-more": "a"})
    clock.now += GROUP_S
    assert news.since(0) == Tidings(many=True)


def test_a_position_that_fell_out_of_the_ring_or_was_never_given_hears_of_everything() -> None:
    clock = HandClock()
    news = News(clock)
    for number in range(MAX_GROUPS + 2):
        news.publish({f"/a/{number}": "a"})
        clock.now += GROUP_S
        news.since(0)
    assert news.since(1) == EVERYTHING
    assert news.since(news.revision + 1) == EVERYTHING
    assert news.since(news.told - 1) == Tidings({f"/a/{MAX_GROUPS + 1}": "a"})


async def test_who_waits_for_one_tree_is_woken_by_its_news_alone() -> None:
    news = News()
    async with news.watch("/a/x") as one, news.watch("/a/y") as other, news.watch() as any_of_them:
        news.publish({"/a/x": "a"})
        async with asyncio.timeout(5):
            await one.wait()
        assert any_of_them.is_set()
        assert not other.is_set()


async def test_a_stop_lets_go_who_waits_and_who_comes_later() -> None:
    news = News()
    async with news.watch() as event:
        news.stop()
        assert event.is_set()
    async with news.watch() as later:
        assert later.is_set()


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.floats(0, 0.4)), max_size=40), st.integers(0, 40))
def test_no_position_ever_misses_a_change(changes: list[tuple[int, bool, float]], asked_after: int) -> None:
    clock = HandClock()
    news = News(clock)
    expected: set[str] = set()
    position = 0
    for number, (job, peers, pause) in enumerate(changes):
        if number == asked_after:
            news.since(0)
            position, expected = news.told, set()
        news.publish({f"/a/{job}": "a"}, peers=peers)
        expected.add(f"/a/{job}")
        clock.now += pause
    clock.now += GROUP_S
    assert expected <= news.since(position).roots.keys()
