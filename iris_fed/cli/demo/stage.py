"""What the audience sees: jobs followed live, claims checked, times taken."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from iris_fed.cli import formats
from iris_fed.cli.job_run import job_exit_code, news
from iris_fed.cli.terminal import one_line, print_table
from iris_fed.client import Client
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2

JOB_LIMIT_S = 60.0
LINE_LIMIT_S = 30.0


class Failed(Exception):
    """Something that the demo claims was not so."""


@dataclass(slots=True)
class Record:
    """One job in the closing table. `took_ms` from submit to the end as seen on the hub."""

    what: str
    where: str
    state: str
    exit: str
    took_ms: int | None


@dataclass(slots=True)
class Stage:
    """Prints as things happen and keeps what the closing table shows."""

    hub: Client
    records: list[Record] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def scene(self, number: int, title: str) -> None:
        print(f"\n{number}. {title}", flush=True)

    def tell(self, sentence: str) -> None:
        print(f"   {one_line(sentence)}", flush=True)

    def claim(self, sentence: str, holds: bool, found: object = None) -> None:
        """Raises Failed unless it holds; `found` says what was the case instead."""
        if not holds:
            raise Failed(f"not so: {sentence}" + ("" if found is None else f" (found: {one_line(str(found))})"))
        print(f"   ok  {one_line(sentence)}", flush=True)

    @asynccontextmanager
    async def job(self, what: str, request: Controller.LaunchJobRequest) -> "AsyncIterator[FollowedJob]":
        """Submit on the hub and follow state and output for as long as the block lasts."""
        started = time.monotonic()
        job = FollowedJob(await self.hub.submit(request), started)
        self.tell(f"submitted on hub: {job.id}")
        followers = (asyncio.create_task(self._watch(what, job)), asyncio.create_task(self._read(job)))
        try:
            yield job
            async with asyncio.timeout(LINE_LIMIT_S):
                await followers[1]
        finally:
            for follower in followers:
                follower.cancel()
            await asyncio.gather(*followers, return_exceptions=True)

    def print_records(self) -> None:
        rows = [(r.what, r.where, r.state, r.exit, formats.duration(r.took_ms)) for r in self.records]
        print()
        print_table(("JOB", "RAN ON", "STATE", "EXIT", "SUBMIT TO END"), rows)

    async def _watch(self, what: str, job: "FollowedJob") -> None:
        async for status in self.hub.watch(job.id):
            if sentence := news(job.status, status):
                self.tell(sentence)
            await job.now_is(status)
        took_ms = round((time.monotonic() - job.started) * 1000)
        tasks = list((await self.hub.tasks(job.id)).tasks)
        state = formats.state(job_pb2.JobState.Name(status.state))
        code = job_exit_code(status, tasks)
        self.tell(f"{formats.duration(took_ms)} from submit to end")
        where = formats.place(status.cluster, status.backend_id)
        self.records.append(Record(what, where, state, str(code), took_ms))
        await job.has_ended(tasks)

    async def _read(self, job: "FollowedJob") -> None:
        async for response in self.hub.logs(job.id, follow=True):
            for line in response.lines:
                text = line.data.decode("utf-8", "replace").rstrip("\n")
                self.tell(f"[{line.task_id.rpartition('/')[2]}] {text}")
                await job.wrote(text)


class FollowedJob:
    """A job on the hub: what is known of it now, and waiting for more."""

    def __init__(self, id: str, started: float) -> None:
        self.id = id
        self.started = started
        self.status: job_pb2.JobStatus | None = None
        self.tasks: list[job_pb2.TaskStatus] | None = None
        self.lines: list[str] = []
        self._news = asyncio.Condition()

    async def now_is(self, status: job_pb2.JobStatus) -> None:
        async with self._news:
            self.status = status
            self._news.notify_all()

    async def has_ended(self, tasks: list[job_pb2.TaskStatus]) -> None:
        async with self._news:
            self.tasks = tasks
            self._news.notify_all()

    async def wrote(self, line: str) -> None:
        async with self._news:
            self.lines.append(line)
            self._news.notify_all()

    async def pids(self, count: int) -> list[int]:
        """The process ids that `count` tasks printed as `pid <number>`."""

        def found() -> list[int]:
            words = [line.split() for line in self.lines]
            return [int(line[line.index("pid") + 1]) for line in words if "pid" in line[:-1]]

        await self._until(
            lambda: len(found()) >= count or self.tasks is not None,
            LINE_LIMIT_S,
            f"{count} of its tasks have written their pid",
        )
        if len(found()) < count:
            error = self.status.error if self.status is not None else ""
            raise Failed(f"{self.id} ended before {count} of its tasks had written their pid: {error}")
        return found()

    async def ended(self) -> tuple[job_pb2.JobStatus, list[job_pb2.TaskStatus]]:
        """Its status and tasks, once it has ended."""
        await self._until(lambda: self.tasks is not None, JOB_LIMIT_S, "it has ended")
        assert self.status is not None
        assert self.tasks is not None
        return self.status, self.tasks

    async def _until(self, holds: Callable[[], bool], limit_s: float, claim: str) -> None:
        try:
            async with asyncio.timeout(limit_s), self._news:
                await self._news.wait_for(holds)
        except TimeoutError:
            raise Failed(f"{self.id}: not within {limit_s:g} s: {claim}") from None
