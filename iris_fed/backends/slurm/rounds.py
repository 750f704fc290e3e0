"""The rounds: one look at Slurm's queue for all attempts, a cheap look at the shared directory in between."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence

import structlog

from iris_fed.backends.base import AttemptEnd, BackendUnavailable, Ended
from iris_fed.backends.news import News
from iris_fed.backends.slurm.engine import Engine
from iris_fed.backends.slurm.entries import Entry
from iris_fed.backends.slurm.lingering import Lingering
from iris_fed.backends.slurm.machines import Held, Machines
from iris_fed.backends.slurm.parse import SlurmJob
from iris_fed.backends.slurm.settings import SlurmSettings
from iris_fed.backends.slurm.shared import Kept, Seen, Shared
from iris_fed.backends.slurm.words import ACTIVE_STATES, END_STATES, RUNNING_STATES
from iris_fed.clock import Clock
from iris_fed.model.resources import Usage

_NEWS_S = 0.2
_IDLE_NEWS_S = 2.0
_GAP_S = 0.2
"""Between two rounds however often one is asked for."""
_ENDING_S = 1.0
"""Between two rounds while it is to be learned how something ended."""
_LOOK_AGAIN_S = 60.0
"""A hint may be lost: all places are looked at this often."""
_ACCOUNTING_AGAIN_S = 10.0
_ACCOUNTING_PATIENCE_S = 900.0

log = structlog.get_logger(__name__)


class Rounds:
    """`live` by uid; `known` holds all that were laid out and not forgotten. `strays` are jobs with our tag of
    which there is no record. `trouble` says why Slurm cannot be asked, '' = it can."""

    def __init__(
        self, settings: SlurmSettings, engine: Engine, shared: Shared, machines: Machines, news: News, clock: Clock
    ) -> None:
        self.live: dict[str, Entry] = {}
        self.known: set[str] = set()
        self.strays: dict[str, SlurmJob] = {}
        self.trouble = ""
        self._settings = settings
        self._engine = engine
        self._shared = shared
        self._machines = machines
        self._news = news
        self._clock = clock
        self._lingering = Lingering()
        self._ending: asyncio.Task[None] | None = None
        self._asked = asyncio.Event()
        self._poked = asyncio.Event()
        self._turn = asyncio.Lock()
        self._before: list[SlurmJob] = []
        self._capacity_s = 0.0
        self._looked_s = 0.0
        self._accounting: asyncio.Task[None] | None = None
        self._accounted_s = 0.0
        self._tasks: list[asyncio.Task[None]] = []

    async def load(self) -> None:
        """What is on the shared directory. Raises OSError."""
        self.known, unfinished = await asyncio.to_thread(self._shared.known)
        for kept in unfinished:
            self.live[kept.uid] = Entry(kept, cancelled=await asyncio.to_thread(self._shared.is_cancelled, kept.uid))
            self._machines.hold(kept.uid, held_by(kept))
        await self._look(list(self.live))
        for entry in self.live.values():
            if entry.began:
                entry.submitted_s = 0.0

    def begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep_asking()), loop.create_task(self._keep_looking())]

    async def close(self) -> None:
        tasks = [*self._tasks, *(task for task in (self._accounting, self._ending) if task is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def poke(self) -> None:
        """Something of ours has changed in Slurm: the next round comes at once."""
        self._capacity_s = 0.0
        self._poked.set()

    async def ask(self) -> None:
        """One round. Raises BackendUnavailable."""
        async with self._turn:
            try:
                await self._ask()
            except BackendUnavailable as error:
                if not self.trouble:
                    log.warning("backend.unavailable", backend=self._settings.backend_id, error=str(error))
                self.trouble = str(error)
                raise
            if self.trouble:
                log.info("backend.available", backend=self._settings.backend_id)
            self.trouble = ""
        asked, self._asked = self._asked, asyncio.Event()
        asked.set()
        await self.settle()

    async def is_gone(self, job: str, limit_s: float) -> bool:
        """Whether nothing of the job is left, here or in Slurm; waits so long for it, unless Slurm cannot be asked."""
        if self._lingering.may_run(job):
            self._poked.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0 if self.trouble else limit_s):
                while self.members(job) or self._lingering.may_run(job):
                    await self._asked.wait()
                return True
        return False

    async def finish(self, entry: Entry, end: AttemptEnd) -> None:
        """It is over: from now on this is how it ended."""
        if self.live.get(entry.uid) is not entry:
            return
        result, runs = entry.result, entry.runs
        started_ms = result.started_ms if result is not None else None if runs is None else runs.started_ms
        finished_ms = result.finished_ms if result is not None else max(self._clock.now_ms(), started_ms or 0)
        usage = result.usage if result is not None else entry.usage or Usage()
        ended = Ended(entry.uid, end, started_ms, finished_ms, usage)
        del self.live[entry.uid]
        self._machines.release(entry.uid)
        self._lingering.add(entry.kept.job, asyncio.get_running_loop().time())
        try:
            await asyncio.to_thread(self._shared.write_end, ended)
        except OSError as error:
            # It is judged again after a restart; who hears of it now keeps it.
            log.error("end of an attempt could not be written", attempt_uid=entry.uid, error=str(error))
        self._news.add(ended)
        entry.notify()
        self.poke()

    def members(self, job: str) -> list[Entry]:
        """The live attempts of one Slurm job."""
        return [entry for entry in self.live.values() if entry.kept.job == job]

    async def _keep_asking(self) -> None:
        while True:
            idle = not self.live and not self.trouble
            idle = idle and not self._lingering.names
            wait_s = self._settings.capacity_interval_s if idle else self._settings.poll_interval_s
            if self._unexplained():
                wait_s = min(wait_s, _ENDING_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._poked.wait()
            self._poked.clear()
            try:
                await self.ask()
            except BackendUnavailable:
                pass
            except Exception:
                log.exception("a round over Slurm's queue failed", backend=self._settings.backend_id)
            await asyncio.sleep(_GAP_S)

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(_NEWS_S if self.live else _IDLE_NEWS_S)
            try:
                await self._look_at_news()
                await self.settle()
            except OSError as error:
                log.warning("shared directory", backend=self._settings.backend_id, error=str(error))
            except Exception:
                log.exception("a look at the shared directory failed", backend=self._settings.backend_id)

    async def _look_at_news(self) -> None:
        uids = await asyncio.to_thread(self._shared.take_news)
        now_s = asyncio.get_running_loop().time()
        if now_s - self._looked_s >= _LOOK_AGAIN_S:
            self._looked_s = now_s
            uids = set(self.live)
        await self._look(uids)

    async def _ask(self) -> None:
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        # Nodes first: what starts in between is then no stranger's use.
        nodes = None
        if asked_s - self._capacity_s >= self._settings.capacity_interval_s:
            nodes = await self._engine.nodes()
        names = {entry.kept.job for entry in self.live.values()}
        jobs = await self._engine.jobs(names | set(self._lingering.names))
        by_name = {job.name: job for job in jobs}
        look: set[str] = set()
        for entry in list(self.live.values()):
            job = by_name.get(entry.kept.job)
            for told in entry.take_job(job, asked_s, loop.time()):
                self._news.add(told)
            if entry.over_since_s is not None or (entry.phase == "queued" and entry.state in RUNNING_STATES):
                look.add(entry.uid)
        await self._look(look)
        mine = {entry.kept.job for entry in self.live.values()}
        self.strays = {job.name: job for job in jobs if job.name not in mine and job.state in ACTIVE_STATES}
        self._end_lingering(self._lingering.take(self.strays.values(), self.known, asked_s, loop.time()))
        if nodes is not None:
            self._capacity_s = asked_s
            holding = [job for job in jobs if job.state in RUNNING_STATES]
            held = {job.name for job in holding}
            # One that ended a moment ago may still be counted in what the nodes said.
            also = [job for job in self._before if job.name not in held]
            self._machines.update(nodes, [*holding, *also], self._held())
            self._before = holding

    def _end_lingering(self, job_ids: Sequence[str]) -> None:
        """In a task of its own: it may hang. What is not ended is tried again."""
        if job_ids and (self._ending is None or self._ending.done()):
            log.warning("jobs run on after their end", backend=self._settings.backend_id, jobs=list(job_ids))
            self._ending = asyncio.get_running_loop().create_task(self._cancel(job_ids))

    async def _cancel(self, job_ids: Sequence[str]) -> None:
        with contextlib.suppress(BackendUnavailable):
            await asyncio.gather(*(self._engine.cancel(job_id) for job_id in job_ids))

    def _held(self) -> Mapping[str, Held]:
        """What one job of ours holds in all, by its name."""
        found: dict[str, Held] = {}
        for entry in self.live.values():
            kept, before = entry.kept, found.get(entry.kept.job)
            chips = kept.chips + (0 if before is None else before.chips)
            found[kept.job] = Held("", 0, 0, kept.variant, chips)
        return found

    async def _look(self, uids: Iterable[str]) -> None:
        entries = [self.live[uid] for uid in uids if uid in self.live]
        if not entries:
            return
        found = await asyncio.to_thread(self._read_places, [entry.uid for entry in entries])
        now_s = asyncio.get_running_loop().time()
        for entry in (entry for entry in entries if entry.uid in found):
            seen = found[entry.uid]
            for told in [*entry.take_place(seen, now_s), *entry.take_usage(seen.usage)]:
                self._news.add(told)
            if entry.runs is not None:
                self._machines.hold(entry.uid, held_by(entry.kept, entry.runs.node))
            entry.notify()

    def _read_places(self, uids: Sequence[str]) -> dict[str, Seen]:
        found = {}
        for uid in uids:
            try:
                found[uid] = self._shared.look(uid)
            except OSError as error:
                # One place that cannot be read keeps nobody from the others.
                log.warning("shared directory", attempt_uid=uid, error=str(error))
        return found

    async def settle(self) -> None:
        """End those of which it is clear by now how they ended."""
        now_s = asyncio.get_running_loop().time()
        for entry in [entry for entry in self.live.values() if entry.over_since_s is not None]:
            words = ""
            if entry.result is None and entry.state not in ACTIVE_STATES:
                words = await asyncio.to_thread(self._shared.job_words, entry.kept.job)
            end = entry.end(now_s, self._settings.lost_after_s, words)
            if end is not None:
                await self.finish(entry, end)
            elif entry.state == "" and entry.result is None:
                self._ask_accounting(now_s)

    def _ask_accounting(self, now_s: float) -> None:
        """What neither the queue nor the shared directory tells. In a task of its own: it may hang."""
        if not self._settings.accounting:
            return
        for entry in self._forgotten():
            asked_for_s = now_s - (entry.over_since_s or now_s)
            entry.accounted = asked_for_s > _ACCOUNTING_PATIENCE_S
        busy = self._accounting is not None and not self._accounting.done()
        if not busy and now_s - self._accounted_s >= _ACCOUNTING_AGAIN_S:
            self._accounted_s = now_s
            self._accounting = asyncio.get_running_loop().create_task(self._account())

    def _unexplained(self) -> list[Entry]:
        return [entry for entry in self.live.values() if entry.over_since_s is not None and entry.result is None]

    def _forgotten(self) -> list[Entry]:
        return [entry for entry in self._unexplained() if entry.state == ""]

    async def _account(self) -> None:
        entries = self._forgotten()
        try:
            states = await self._engine.accounted(sorted({entry.kept.job for entry in entries}))
        except BackendUnavailable as error:
            log.warning("backend.accounting_unavailable", backend=self._settings.backend_id, error=str(error))
            return
        for entry in entries:
            entry.accounted = True
            state = states.get(entry.kept.job, "")
            entry.state = state if state in END_STATES else entry.state


def held_by(kept: Kept, node: str = "") -> Held:
    return Held(node, kept.cpu_millicores, kept.memory_bytes, kept.variant, kept.chips)
