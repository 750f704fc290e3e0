"""The Slurm backend: attempts as jobs of a cluster, their places on a directory that its nodes share."""

import asyncio
import contextlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from iris_fed.backends.base import (
    AttemptEnd,
    BackendUnavailable,
    Ended,
    EndKind,
    Honours,
    Intake,
    LaunchRequest,
    LogPage,
    NotRunning,
    Observation,
    Owner,
    Queued,
    Recovery,
    Stranger,
)
from iris_fed.backends.news import News
from iris_fed.backends.posix import files, logfile, workdir
from iris_fed.backends.posix.accounts import NoAccount, account_of
from iris_fed.backends.posix.capacity import lacking
from iris_fed.backends.slurm import commands, node, summary
from iris_fed.backends.slurm.engine import Engine
from iris_fed.backends.slurm.entries import Entry
from iris_fed.backends.slurm.launching import Launching
from iris_fed.backends.slurm.machines import Machines
from iris_fed.backends.slurm.rounds import Rounds, held_by
from iris_fed.backends.slurm.settings import SlurmSettings
from iris_fed.backends.slurm.shared import Shared
from iris_fed.clock import Clock
from iris_fed.model.files import ExecResult, FileChunk, FileListing, NoSuchFile
from iris_fed.model.resources import BackendSummary, NodeFree, NodeShape

_OUTPUT_PAUSE_S = 0.1
_LAUNCHES_S = 3.0
"""What is being submitted when the controller stops has this long."""
_GONE_S = 10.0
"""What has just ended here has this long to end in Slurm before its files go."""
_EXEC_SLACK_S = 10.0
"""What the way to the node and back may take, beside the command itself."""
_SRUNS_OWN = re.compile(rb"(?m)^srun: error: \S+: task \d+: [^\n]*\n?")
_NO_MACHINE = NodeShape(0, 0)


class SlurmBackend:
    """Implements `base.Backend`. Everything that blocks goes to threads or processes."""

    def __init__(self, settings: SlurmSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._news = News()
        self._engine = Engine(settings)
        self._shared = Shared(settings.shared_dir, settings.run_as is not None)
        self._machines = Machines(settings.variant)
        self._rounds = Rounds(settings, self._engine, self._shared, self._machines, self._news, clock)
        self._launching = Launching(settings, self._engine, self._shared, self._rounds)
        self._epoch = 0

    @property
    def backend_id(self) -> str:
        return self._settings.backend_id

    @property
    def kind(self) -> str:
        return "slurm"

    async def start(self, owner: Owner) -> None:
        """Does not wait for a Slurm that is away. Raises OSError when the shared directory cannot be used."""
        self._launching.owner = owner
        self._launching.keeper = await asyncio.to_thread(self._shared.prepare)
        await self._rounds.load()
        # Told by `intake`, and asked again soon.
        with contextlib.suppress(BackendUnavailable):
            await self._rounds.ask()
        self._rounds.begin()

    async def close(self) -> None:
        """A submission that hangs is left: whether Slurm has heard of it the next controller finds out."""
        launches = {entry.launch for entry in self._rounds.live.values() if entry.launch is not None}
        if launches:
            _, hanging = await asyncio.wait(launches, timeout=_LAUNCHES_S)
            for launch in hanging:
                launch.cancel()
            await asyncio.gather(*launches, return_exceptions=True)
        await self._rounds.close()
        await self._engine.close()

    def summary(self) -> BackendSummary:
        self._epoch = max(self._epoch + 1, self._clock.now_ms())
        running = sum(entry.runs is not None for entry in self._rounds.live.values())
        return summary.summarise(self._settings, self._machines, self._epoch, running)

    def nodes(self) -> Sequence[NodeFree]:
        return self._machines.kinds() if self._settings.max_pending else self._machines.each()

    def intake(self) -> Intake:
        closed = f"waiting for Slurm, which cannot be asked: {self._rounds.trouble}" if self._rounds.trouble else ""
        if not self._settings.max_pending:
            return Intake(None, closed)
        waiting = {entry.kept.job for entry in self._rounds.live.values() if entry.is_queued}
        return Intake(max(0, self._settings.max_pending - len(waiting)), closed)

    def refusals(self, request: Honours) -> tuple[str, ...]:
        """A job has no image, profile or network of its own here, and its disk is not measured."""
        asked = {
            "task_image": bool(request.task_image),
            "container_profile": request.container_profile != 0,
            "egress_policy": request.egress_policy != 0,
            "resources.disk_bytes": request.disk_bytes > 0,
        }
        return tuple(name for name, is_asked in asked.items() if is_asked)

    async def launch(self, request: LaunchRequest) -> None:
        """Raises ValueError for a uid that cannot name a directory."""
        await self.launch_gang([request])

    async def launch_gang(self, requests: Sequence[LaunchRequest]) -> None:
        """As one Slurm job, with a step that runs a member a task: Slurm starts all or none."""
        live, known = self._rounds.live, self._rounds.known
        for request in requests:
            if not files.is_uid(request.attempt_uid):
                raise ValueError(f"an attempt uid is 1-64 letters, digits, '-' or '_', not {request.attempt_uid!r}")
        uids = [request.attempt_uid for request in requests]
        fresh = [uid for uid in uids if uid not in known and uid not in live]
        entries = self._reserve(requests) if len(fresh) == len(uids) else [live[uid] for uid in uids if uid in live]
        for uid in uids:
            if uid in known and uid not in live:
                await self._tell_end(uid)
        if len(entries) < len(uids):
            # Of a gang that has ended here, or was refused, the others do not come to be any more.
            if not entries and len(fresh) < len(uids):
                for uid in fresh:
                    end = AttemptEnd(EndKind.NO_CAPACITY, message="was not started: others of its gang have ended")
                    self._news.add(Ended(uid, end, None, self._clock.now_ms()))
            return
        if entries[0].launch is None and not any(entry.is_submitted for entry in entries):
            task = asyncio.get_running_loop().create_task(self._launch(entries, requests))
            for entry in entries:
                entry.launch = task
        if entries[0].launch is not None:
            # Whoever waits may be cancelled; what was begun is brought to its end.
            await asyncio.shield(entries[0].launch)

    async def allot_ports(self, requests: Sequence[LaunchRequest]) -> Mapping[str, Mapping[str, int]]:
        """None: each is given on the node where it runs, and a gang's members are told there."""
        return {}

    def address(self, node: str) -> str:
        """Empty: where one runs is known when it does."""
        return ""

    async def kill(self, attempt_uid: str) -> None:
        """A member's whole gang: it is one job. Raises BackendUnavailable."""
        entry = self._rounds.live.get(attempt_uid)
        if entry is None:
            stray = self._rounds.strays.get(attempt_uid)
            if stray is not None:
                await self._engine.cancel(stray.job_id)
                self._rounds.poke()
            return
        if entry.launch is not None:
            await asyncio.wait([entry.launch])
        job = entry.kept.job
        members = self._rounds.members(job)
        for member in members:
            await asyncio.to_thread(self._shared.cancel, member.uid)
            member.cancelled = True
        if not members:
            return
        found = None if entry.job_id else await self._engine.find(job)
        job_id = entry.job_id or ("" if found is None else found.job_id)
        if job_id:
            await self._engine.cancel(job_id)
            self._rounds.poke()
        for member in members:
            if not job_id and not member.began:
                await self._rounds.finish(member, AttemptEnd(EndKind.KILLED, message="killed on request"))
            elif not job_id and not member.is_submitted:
                # Whoever made it begin, Slurm does not know of it (any more): judged like all that it has lost.
                member.submitted_s = asyncio.get_running_loop().time()

    async def observe(self) -> tuple[Observation, ...]:
        return await self._news.take()

    async def recover(self, live: Collection[str]) -> Recovery:
        """Raises BackendUnavailable: who waits in Slurm's queue can only be told by Slurm."""
        launches = [entry.launch for entry in self._rounds.live.values() if entry.launch is not None]
        await asyncio.gather(*launches, return_exceptions=True)
        await self._rounds.ask()
        found: list[Observation] = []
        unknown: set[str] = set()
        for uid in live:
            entry = self._rounds.live.get(uid)
            if entry is not None and (entry.is_submitted or entry.began or entry.result is not None):
                found.append(entry.now())
            elif entry is None and (end := await self._end_of(uid)) is not None:
                found.append(end)
            else:
                unknown.add(uid)
                await self._give_up(entry)
        return Recovery(tuple(found), frozenset(unknown), self._strangers(live))

    async def read_log(self, attempt_uid: str, offset: int, max_bytes: int, tail_lines: int = 0) -> LogPage:
        if attempt_uid not in self._rounds.known:
            return LogPage((), 0, True)
        # Asked before the files are read, so that what is read after an end is all there is.
        ended = attempt_uid not in self._rounds.live
        folder = self._shared.place(attempt_uid)
        return await asyncio.to_thread(logfile.read_log, folder, offset, max_bytes, tail_lines, ended)

    async def wait_log(self, attempt_uid: str, offset: int, timeout_s: float) -> bool:
        folder = self._shared.place(attempt_uid)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while (entry := self._rounds.live.get(attempt_uid)) is not None:
                    changed = entry.changed
                    if await asyncio.to_thread(logfile.end_offset, folder) > offset:
                        return True
                    # A file on a shared directory tells nobody that it grew.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_OUTPUT_PAUSE_S):
                            await changed.wait()
                return True
        return False

    async def exec(self, attempt_uid: str, argv: Sequence[str], timeout_s: float, max_bytes: int) -> ExecResult:
        entry = self._rounds.live.get(attempt_uid)
        if entry is None or entry.runs is None or not entry.job_id:
            raise NotRunning(attempt_uid)
        where = entry.runs.node if entry.kept.members > 1 else ""
        words = [attempt_uid, f"{timeout_s:g}", *argv]
        step = commands.srun_exec(self._settings, entry.job_id, where, self._launching.keeper, words)
        try:
            done = await self._engine.exec(step, entry.kept.account, timeout_s + _EXEC_SLACK_S, max_bytes)
        except OSError as error:
            raise BackendUnavailable(f"srun cannot be run: {error.strerror}") from error
        if done.code == node.NOT_RUNNING or attempt_uid not in self._rounds.live:
            raise NotRunning(attempt_uid)
        code = None if done.code == node.OUT_OF_TIME else done.code
        return ExecResult(code, done.stdout, _SRUNS_OWN.sub(b"", done.stderr), done.truncated)

    async def list_files(self, attempt_uid: str, path: str, limit: int) -> FileListing:
        self._check_known(attempt_uid, path)
        work = self._shared.place(attempt_uid) / files.WORK
        entries, truncated = await asyncio.to_thread(workdir.list_files, work, path, limit)
        return FileListing(entries, truncated)

    async def read_file(self, attempt_uid: str, path: str, offset: int, max_bytes: int) -> FileChunk:
        self._check_known(attempt_uid, path)
        work = self._shared.place(attempt_uid) / files.WORK
        return await asyncio.to_thread(workdir.read_file, work, path, offset, max_bytes)

    async def forget(self, attempt_uid: str) -> None:
        """Raises BackendUnavailable while Slurm may still run its job, whatever its task said."""
        if attempt_uid in self._rounds.known and attempt_uid not in self._rounds.live:
            kept = await asyncio.to_thread(self._shared.kept, attempt_uid)
            if kept is not None and not await self._rounds.is_gone(kept.job, _GONE_S):
                raise BackendUnavailable(f"Slurm may still run the job {kept.job}")
            await asyncio.to_thread(self._shared.remove, attempt_uid)
            self._rounds.known.discard(attempt_uid)

    def _reserve(self, requests: Sequence[LaunchRequest]) -> list[Entry]:
        """What is free is taken before anybody else can; without a queue of Slurm's there must be enough."""
        uids = [request.attempt_uid for request in requests]
        short = [one for one in requests if not self._machines.reserve(one.attempt_uid, one.resources, one.node)]
        if short and not self._settings.max_pending:
            free, shape = self._most_free(short[0])
            end = AttemptEnd(EndKind.NO_CAPACITY, message=lacking(shape, free, short[0].resources))
            for uid in uids:
                self._machines.release(uid)
                self._news.add(Ended(uid, end, None, self._clock.now_ms()))
            return []
        entries = []
        for request in requests:
            variant = request.resources.device.variant if request.resources.device is not None else ""
            kept = self._launching.kept(request, uids[0], len(uids), variant)
            entries.append(Entry(replace(kept, account=self._account(request))))
            self._rounds.live[kept.uid] = entries[-1]
            self._rounds.known.add(kept.uid)
            if request in short:
                self._machines.hold(kept.uid, held_by(kept))
        return entries

    async def _launch(self, entries: Sequence[Entry], requests: Sequence[LaunchRequest]) -> None:
        try:
            await self._launching.run(entries, requests)
        except BackendUnavailable as error:
            uids = [entry.uid for entry in entries]
            for uid in uids:
                self._news.add(Queued(uid, f"Slurm has not taken it so far: {error}"))
            # Once all are laid out they stay: Slurm may have heard of them all the same.
            if not await asyncio.to_thread(self._launching.is_laid_out, uids):
                await asyncio.to_thread(self._launching.take_back, uids)
                for entry in entries:
                    self._drop(entry)
            raise
        finally:
            for entry in entries:
                entry.launch = None

    def _drop(self, entry: Entry) -> None:
        self._machines.release(entry.uid)
        self._rounds.live.pop(entry.uid, None)
        self._rounds.known.discard(entry.uid)
        entry.notify()

    async def _give_up(self, entry: Entry | None) -> None:
        """One that never came to be. Should a gang's job come late all the same, nobody of it begins; one by
        itself is asked for again under the same uid."""
        if entry is None:
            return
        if entry.kept.members > 1:
            await asyncio.to_thread(self._shared.cancel, entry.uid)
            end = AttemptEnd(EndKind.NO_CAPACITY, message="was not started")
            ended = Ended(entry.uid, end, None, self._clock.now_ms())
            await asyncio.to_thread(self._shared.write_end, ended)
            self._rounds.live.pop(entry.uid, None)
            self._machines.release(entry.uid)

    async def _end_of(self, uid: str) -> Ended | None:
        return await asyncio.to_thread(self._shared.end, uid) if uid in self._rounds.known else None

    async def _tell_end(self, uid: str) -> None:
        end = await self._end_of(uid)
        if end is not None:
            self._news.add(end)

    def _strangers(self, named: Collection[str]) -> tuple[Stranger, ...]:
        """Those laid out here, and jobs of this cluster of which the shared directory has lost the record."""
        kept = [entry.kept for entry in self._rounds.live.values() if entry.uid not in named and _may_live(entry)]
        strays = [job for job in self._rounds.strays.values() if job.cluster == self._launching.owner.cluster]
        return (
            *(Stranger(one.uid, one.task_id, one.cluster, one.database_id) for one in kept),
            *(Stranger(job.name, f"Slurm job {job.job_id}", job.cluster, job.database_id) for job in strays),
        )

    def _most_free(self, request: LaunchRequest) -> tuple[NodeShape, NodeShape]:
        """The machine asked for, else the emptiest, and the whole of it."""
        found = sorted(self._machines.each(), key=lambda one: (one.node == request.node, sum(one.devices.values())))
        if not found:
            return _NO_MACHINE, _NO_MACHINE
        best = found[-1]
        return NodeShape(best.cpu_millicores, best.memory_bytes, best.devices), best.total or _NO_MACHINE

    def _account(self, request: LaunchRequest) -> str:
        """The name of whom it runs as; who has none is refused on the way."""
        run_as = self._settings.run_as
        if run_as is None or isinstance(run_as, str):
            return run_as or ""
        try:
            account_of(request.owner, run_as)
        except NoAccount:
            return ""
        requester, slash, _ = request.owner.rpartition("/")
        return run_as.get(request.owner) or run_as.get(f"{requester}{slash}*") or ""

    def _check_known(self, uid: str, path: str) -> None:
        """Raises NoSuchFile."""
        if uid not in self._rounds.known:
            raise NoSuchFile(path, "is gone with its attempt's work directory")


def _may_live(entry: Entry) -> bool:
    return entry.is_submitted or entry.began
