"""Waiting for news of anything, so that a page shows what is without asking over and over."""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio

from iris_fed.signals import EVERYTHING, News, Tidings

DEFAULT_WAIT_MS = 25_000
MAX_WAIT_MS = 50_000
MAX_WAITING = 512
"""Of one caller at a time; then the one that has waited longest is answered without news."""
MAX_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Watch:
    """What `who` waits for. `position` of the last answer, '' = say where news stands. `root`: only of this
    job's tree, '' = of all; `places`: of peers and backends too. `owner`: only of this user's own jobs, None =
    of everybody's. `wait_ms` 0 = DEFAULT_WAIT_MS."""

    who: str
    position: str = ""
    root: str = ""
    places: bool = True
    owner: str | None = None
    wait_ms: int = 0


@dataclass(frozen=True, slots=True)
class Changes:
    """`tidings` since the position that was given, as far as the caller may know of them."""

    position: str
    tidings: Tidings


class Watcher:
    """`boot` names this process: positions of another count for nothing; None = a fresh one."""

    def __init__(self, news: News, boot: str | None = None) -> None:
        self._news = news
        self._boot = boot or secrets.token_hex(6)
        self._waiting: dict[str, dict[asyncio.Event, None]] = defaultdict(dict)

    @property
    def waiting(self) -> int:
        """How many wait now."""
        return sum(map(len, self._waiting.values()))

    async def wait(self, watch: Watch) -> Changes:
        """Answers once there is news since the position, after the wait, and at once when the process stops."""
        if not watch.position:
            return Changes(self._position(self._news.told), Tidings())
        since = self._revision(watch.position)
        if since is None:
            return Changes(self._position(self._news.told), seen(EVERYTHING, watch))
        changes = self._look(watch, since)
        async with self._news.watch("" if watch.places else watch.root) as event:
            with self._place_of(watch.who, event), anyio.move_on_after(_wait_s(watch.wait_ms)):
                while not changes.tidings and not self._news.stopped and event in self._waiting[watch.who]:
                    event.clear()
                    changes = self._look(watch, since)
                    if not changes.tidings:
                        await event.wait()
        return self._look(watch, since)

    def _look(self, watch: Watch, since: int) -> Changes:
        tidings = seen(self._news.since(since), watch)
        return Changes(self._position(self._news.told), tidings)

    @contextmanager
    def _place_of(self, who: str, event: asyncio.Event) -> Iterator[None]:
        """One of the places of a caller, who gives the oldest up when there is no other."""
        own = self._waiting[who]
        if len(own) >= MAX_WAITING:
            oldest = next(iter(own))
            del own[oldest]
            oldest.set()
        own[event] = None
        try:
            yield
        finally:
            own.pop(event, None)
            if not own:
                self._waiting.pop(who, None)

    def _position(self, revision: int) -> str:
        return f"{self._boot}.{revision}"

    def _revision(self, position: str) -> int | None:
        """None = it is not of this process."""
        boot, _, revision = position.rpartition(".")
        known = boot == self._boot and revision.isascii() and revision.isdecimal() and len(revision) <= MAX_DIGITS
        return int(revision) if known else None


def seen(tidings: Tidings, watch: Watch) -> Tidings:
    """What is left for this caller. That much changed is told without saying whose."""
    roots = {
        root: owner
        for root, owner in tidings.roots.items()
        if (not watch.root or root == watch.root) and (watch.owner is None or (owner and owner == watch.owner))
    }
    return Tidings(roots, tidings.many, watch.places and tidings.peers, watch.places and tidings.backends)


def _wait_s(wait_ms: int) -> float:
    return min(wait_ms or DEFAULT_WAIT_MS, MAX_WAIT_MS) / 1000
