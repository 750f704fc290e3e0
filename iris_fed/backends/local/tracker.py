"""What the backend knows of its attempts: who runs, who was ever started, how the rest ended."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

import structlog

from iris_fed.backends.base import AttemptEnd, Building, Ended, EndKind, Observation, Running, Sampled, Stranger
from iris_fed.backends.local import orphans
from iris_fed.backends.local.client import LauncherClient
from iris_fed.backends.local.orphans import Orphans
from iris_fed.backends.local.records import AttemptRecord, Records
from iris_fed.backends.local.settings import LocalSettings
from iris_fed.backends.news import News
from iris_fed.backends.posix.capacity import Ledger
from iris_fed.backends.posix.ends import parse_end, parse_usage, unseen_end
from iris_fed.backends.posix.files import Record
from iris_fed.clock import Clock

_UNKNOWN_END = "exit code unknown: what kept it ended too, as when a container, service or machine is stopped"

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Live:
    """An attempt that runs, or whose `launch` is under way. `changed` is set, and replaced, at any news."""

    record: AttemptRecord
    started_ms: int = 0
    building: bool = False
    launch: asyncio.Task[None] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class Tracker:
    """`live` and `known` by uid; `known` holds all that were started and not forgotten."""

    def __init__(
        self, store: Records, ledger: Ledger, news: News, clock: Clock, node: str, settings: LocalSettings
    ) -> None:
        self.live: dict[str, Live] = {}
        self.known: set[str] = set()
        self.orphans = Orphans(self._orphan_ended)
        self._store = store
        self._ledger = ledger
        self._news = news
        self._clock = clock
        self._node = node
        self._settings = settings
        self._was_read = False

    async def launches_done(self) -> None:
        launches = [live.launch for live in self.live.values() if live.launch is not None]
        await asyncio.gather(*launches, return_exceptions=True)

    async def close(self) -> None:
        await self.orphans.close()

    def begin(self, record: AttemptRecord) -> Live:
        live = Live(record)
        self.live[record.uid] = live
        self.known.add(record.uid)
        return live

    def never_began(self, uid: str) -> None:
        """The launch could not even be asked for; the same uid may come again."""
        self._drop(uid)
        self.known.discard(uid)

    def ports(self) -> set[int]:
        return {port for live in self.live.values() for port in live.record.ports.values()}

    def strangers(self, named: Collection[str]) -> tuple[Stranger, ...]:
        others = [live.record for uid, live in self.live.items() if uid not in named]
        return tuple(Stranger(one.uid, one.task_id, one.cluster, one.database_id) for one in others)

    def hear(self, event: Record) -> None:
        """What the launcher pushes."""
        uid = event["uid"]
        live = self.live.get(uid)
        if live is None:
            return
        match event["event"]:
            case "started" | "running":
                self._started(live, event["started_ms"], event.get("building", False))
            case "sampled":
                self._news.add(Sampled(uid, parse_usage(event["usage"])))
            case "ended":
                self._ended(parse_end(uid, event["record"]))
            case "output":
                live.notify()

    async def resume(self, launcher: LauncherClient) -> None:
        """Over a new connection: what runs, and what became of the rest meanwhile."""
        # The disk first: what the launcher tells after its list is told of attempts that are known then.
        if not self._was_read:
            await self._read_disk()
            self._was_read = True
        alive = {one["uid"]: one for one in (await launcher.request("list"))["alive"]}
        for uid, live in list(self.live.items()):
            if uid in alive:
                self._started(live, alive[uid]["started_ms"], alive[uid].get("building", False))
            elif live.launch is None:
                await self.settle(uid)
            live.notify()

    async def settle(self, uid: str) -> None:
        """Find out, and tell, what became of an attempt that the launcher does not know to run."""
        end = await asyncio.to_thread(self._store.end, uid)
        if end is not None:
            self._ended(end)
        elif uid in self.live and uid not in self.orphans and not await self._follow(self.live[uid]):
            await self._lose(uid, AttemptEnd(EndKind.LOST, message=_UNKNOWN_END))

    async def state_of(self, uid: str) -> Observation | None:
        live = self.live.get(uid)
        if live is not None:
            return self._running(live)
        return await asyncio.to_thread(self._store.end, uid) if uid in self.known else None

    def kill_orphan(self, uid: str) -> bool:
        """False when it is no orphan."""
        self.orphans.kill(uid, self._settings.kill_grace_s, orphans.KILLED)
        return uid in self.orphans

    async def _read_disk(self) -> None:
        self.known, unfinished = await asyncio.to_thread(self._store.started)
        for record in unfinished:
            self.live[record.uid] = Live(record)
            self._ledger.restore(record.uid, record.allotment)

    async def _follow(self, live: Live) -> bool:
        """As an orphan; False when its process is gone."""
        uid = live.record.uid
        record = await asyncio.to_thread(self._store.attempt, uid)
        process = None if record is None else await asyncio.to_thread(orphans.find_process, record)
        if record is None or process is None or not self.orphans.follow(uid, process):
            if process is not None:
                await asyncio.to_thread(orphans.sweep, uid, process)
            return False
        live.record = record
        self._started(live, record.started_ms or self._clock.now_ms(), record.building)
        log.warning("attempt runs without its launcher", attempt_uid=uid, pid=process.pid)
        if record.timeout_ms > 0:
            left_ms = live.started_ms + record.timeout_ms - self._clock.now_ms()
            end = AttemptEnd(EndKind.TIMED_OUT, message=f"ran longer than its limit of {record.timeout_ms / 1000:g} s")
            asyncio.get_running_loop().call_later(
                max(0, left_ms) / 1000, self.orphans.kill, uid, self._settings.kill_grace_s, end
            )
        return True

    async def _orphan_ended(self, uid: str, end: AttemptEnd | None) -> None:
        await self._lose(uid, end or AttemptEnd(EndKind.LOST, message=_UNKNOWN_END))

    async def _lose(self, uid: str, end: AttemptEnd) -> None:
        live = self.live.get(uid)
        started_ms = live.started_ms or None if live is not None else None
        record = unseen_end(end, started_ms, self._clock.now_ms())
        try:
            ended = await asyncio.to_thread(self._store.write_end, uid, record)
        except OSError as error:
            log.error("end of an attempt could not be written", attempt_uid=uid, error=str(error))
            ended = parse_end(uid, record)
        self._ended(ended)

    def _started(self, live: Live, started_ms: int, building: bool) -> None:
        if live.started_ms == 0 or (live.building and not building):
            live.started_ms, live.building = started_ms, building
            self._news.add(self._running(live))

    def _running(self, live: Live) -> Building | Running:
        record = live.record
        host = self._settings.advertise_host
        kind = Building if live.building else Running
        return kind(record.uid, live.started_ms, self._node, host, record.allotment.devices, dict(record.ports))

    def _ended(self, ended: Ended) -> None:
        self._drop(ended.attempt_uid)
        self._news.add(ended)

    def _drop(self, uid: str) -> None:
        self._ledger.release(uid)
        live = self.live.pop(uid, None)
        if live is not None:
            live.notify()
