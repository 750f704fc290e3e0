"""News of a job reaches whoever waits for it, and nobody else."""

from iris_fed.signals import JobSignals


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
