"""Wakes whoever waits for news of a job, or of anything, in this process; an event, never a poll."""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

GROUP_S = 0.15
"""News that follows within this time is told with the first: a burst is one answer."""
MAX_GROUPS = 1_024
MAX_ROOTS = 100
"""Roots named in one group; of more it is only said that there are many."""


class JobSignals:
    """News by job uid. Register first, then look, then wait: nothing falls between."""

    def __init__(self) -> None:
        self._waiting: dict[int, set[asyncio.Event]] = defaultdict(set)

    def publish(self, job_uids: Iterable[int]) -> None:
        """Something about these jobs changed and is committed."""
        for uid in job_uids:
            for event in self._waiting.get(uid, ()):
                event.set()

    @asynccontextmanager
    async def watch(self, job_uid: int) -> AsyncIterator[asyncio.Event]:
        """An event that is set at each change; clear it before looking."""
        event = asyncio.Event()
        self._waiting[job_uid].add(event)
        try:
            yield event
        finally:
            self._waiting[job_uid].discard(event)
            if not self._waiting[job_uid]:
                del self._waiting[job_uid]


@dataclass(frozen=True, slots=True)
class Tidings:
    """What changed. `roots`: root job id -> the user of this cluster whose own job it is, '' = nobody's
    (another cluster handed it over). `many`: more roots changed than are named."""

    roots: Mapping[str, str] = field(default_factory=dict)
    many: bool = False
    peers: bool = False
    backends: bool = False

    def __bool__(self) -> bool:
        return bool(self.roots) or self.many or self.peers or self.backends


EVERYTHING = Tidings(many=True, peers=True, backends=True)


class News:
    """What changed lately in this process, as positions in a ring of groups. `revision` counts every change
    at once; who waits hears of a group GROUP_S after its first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.revision = 0
        self._clock = clock
        self._groups: deque[tuple[int, Tidings]] = deque(maxlen=MAX_GROUPS)
        self._forgotten = 0
        self._gathering = Tidings()
        self._since = 0.0
        self._waiting: dict[asyncio.Event, str] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.stopped = False

    def publish(
        self, roots: Mapping[str, str] = MappingProxyType({}), *, many: bool = False, peers: bool = False,
        backends: bool = False,
    ) -> None:  # fmt: skip
        """This changed and is committed."""
        if not self._gathering:
            self._since = self._clock()
        self.revision += 1
        self._gathering = merge(self._gathering, Tidings(roots, many, peers, backends))
        self._arm()

    @property
    def told(self) -> int:
        """The revision up to which groups were told."""
        return self._groups[-1][0] if self._groups else 0

    def since(self, revision: int) -> Tidings:
        """What was told after `revision`, which this process has given."""
        if self._gathering and self._clock() >= self._since + GROUP_S:
            self._tell()
        if revision < self._forgotten or revision > self.revision:
            return EVERYTHING
        found = Tidings()
        for told, tidings in reversed(self._groups):
            if told <= revision or found == EVERYTHING:
                break
            found = merge(found, tidings)
        return found

    @asynccontextmanager
    async def watch(self, root: str = "") -> AsyncIterator[asyncio.Event]:
        """An event that is set when a group is told that may hold news of `root` ('' = of anything), and at
        `stop`; clear it before looking."""
        event = asyncio.Event()
        self._waiting[event] = root
        if self.stopped:
            event.set()
        self._arm()
        try:
            yield event
        finally:
            del self._waiting[event]

    def stop(self) -> None:
        """Who waits is let go, now and from now on."""
        self.stopped = True
        for event in self._waiting:
            event.set()

    def _arm(self) -> None:
        # Without anybody who waits there is no timer: a group is told when somebody asks.
        if self._gathering and self._waiting and self._timer is None and not self.stopped:
            delay_s = max(0.0, self._since + GROUP_S - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tell)

    def _tell(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        tidings, self._gathering = self._gathering, Tidings()
        if not tidings:
            return
        if len(self._groups) == MAX_GROUPS:
            self._forgotten = self._groups[0][0]
        self._groups.append((self.revision, tidings))
        for event, root in self._waiting.items():
            if not root or tidings.many or root in tidings.roots:
                event.set()


def merge(one: Tidings, other: Tidings) -> Tidings:
    """Both, with at most MAX_ROOTS roots."""
    roots = one.roots if not other.roots else {**one.roots, **other.roots}
    many = one.many or other.many or len(roots) > MAX_ROOTS
    # Once it is said to look at everything, no name adds to it.
    return Tidings({} if many else roots, many, one.peers or other.peers, one.backends or other.backends)
