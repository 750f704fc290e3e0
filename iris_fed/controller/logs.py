"""Reading and following what tasks wrote, here or, relayed, on the peer that runs them.

Pushed to a `send` that may be slow: nothing is read ahead of it by more than a few pages.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import anyio

from iris_fed.backends.base import Backend, LogPage
from iris_fed.decide.backoff import backoff_ms
from iris_fed.decide.mirror import remote_id_of
from iris_fed.errors import Aborted, InvalidArgument, NotFound
from iris_fed.model.jobs import Attempt, Job, Task
from iris_fed.model.logs import LogBatch, LogPosition, LogRequest, TaskLogLine
from iris_fed.model.ports import Handoffs, PeerRefused, PeerUnreachable
from iris_fed.model.states import TERMINAL_TASK_STATES, job_ended
from iris_fed.store.db import Tx
from iris_fed.store.handles import is_meant, sent_by_nonce
from iris_fed.store.jobs import job_by_id, job_by_uid
from iris_fed.store.listing import task_views
from iris_fed.store.runtime import Runtime

Send = Callable[[LogBatch], Awaitable[None]]

MAX_FOLLOWED_TASKS = 256
WAIT_S = 30.0
"""How long one wait for output or news lasts before the state is looked at again."""
RELAY_PATIENCE_S = 15.0
RELAY_RETRY_BASE_MS = 250
RELAY_RETRY_MAX_MS = 5_000
RELAY_TRIES_AFTER_END = 5
"""Of a job that is over: how often an unreachable peer is asked for the rest of its output."""
PASSING = frozenset({"unavailable", "resource_exhausted", "aborted"})
"""Codes by which a peer only says: not now."""


class LogReader:
    """The `read_logs` use case."""

    def __init__(self, runtime: Runtime, backends: Mapping[str, Backend], handoffs: Handoffs, page_bytes: int) -> None:
        self._runtime = runtime
        self._backends = backends
        self._handoffs = handoffs
        self._page_bytes = page_bytes

    async def read(self, request: LogRequest, send: Send) -> None:
        """Sends everything asked for, in order within each attempt; nothing of another incarnation than
        the one that is meant. Raises NotFound, InvalidArgument."""
        job, is_meant = await self._runtime.db.read(lambda tx: _find(tx, request))
        if job is None:
            raise NotFound(f"there is no job {request.job_id}")
        if not is_meant:
            return
        if request.task_index is not None and request.task_index >= job.task_count:
            raise NotFound(f"{request.job_id} has no task {request.task_index}; it has {job.task_count}")
        if job.cluster:
            await _Relay(self._runtime, self._handoffs, job, send).run(request)
            return
        indexes = range(job.task_count) if request.task_index is None else [request.task_index]
        if request.follow and len(indexes) > MAX_FOLLOWED_TASKS:
            raise InvalidArgument(f"more than {MAX_FOLLOWED_TASKS} tasks cannot be followed at once; name a task", "id")
        if not request.follow:
            for index in indexes:
                await self._read_task(job, index, request, send)
            return
        turn = asyncio.Lock()

        async def send_in_turn(batch: LogBatch) -> None:
            async with turn:
                await send(batch)

        async with anyio.create_task_group() as group:
            for index in indexes:
                group.start_soon(self._read_task, job, index, request, send_in_turn)

    async def _read_task(self, job: Job, index: int, request: LogRequest, send: Send) -> None:
        """One task: its current attempt, and when following, each later one until the task is over."""
        done = -1
        async with self._runtime.signals.watch(job.uid) as news:
            while True:
                news.clear()
                found = await self._runtime.db.read(lambda tx: _task_and_attempts(tx, job, index))
                if found is None:
                    return
                task, attempts = found
                begun = True
                for attempt in _wanted(attempts, task, request, done):
                    begun = await self._read_attempt(attempt, request, send)
                    if not begun:
                        break
                    done = attempt.number
                over = task.state in TERMINAL_TASK_STATES and done >= task.current_attempt
                if not request.follow or over or (request.attempt is not None and begun):
                    return
                with anyio.move_on_after(WAIT_S):
                    await news.wait()

    async def _read_attempt(self, attempt: Attempt, request: LogRequest, send: Send) -> bool:
        """Its output to the end; False where there is none and the engine may not have heard of it yet: an
        attempt is a row before it is launched."""
        backend = self._backends.get(attempt.backend_id)
        if backend is None:
            await send(LogBatch(notice=f"backend {attempt.backend_id} is not configured any more; its output is gone"))
            return True
        if attempt.files_gone:
            gone = f"the output of task {attempt.task_index}, attempt {attempt.number}, was removed after its time"
            await send(LogBatch(notice=gone))
            return True
        offset, tail = _start(attempt, request)
        while True:
            page = await backend.read_log(attempt.attempt_uid, offset, self._page_bytes, tail)
            if page.lines:
                await send(LogBatch(_lines(attempt, page)))
            moved, tail = page.next_offset > offset or bool(page.lines), 0
            offset = page.next_offset
            if page.complete or (not request.follow and not moved):
                return offset > 0 or attempt.state in TERMINAL_TASK_STATES
            if not moved:
                await backend.wait_log(attempt.attempt_uid, offset, WAIT_S)


class _Relay:
    """The output of a job that a peer runs, resumed by position across cuts."""

    def __init__(self, runtime: Runtime, handoffs: Handoffs, job: Job, send: Send) -> None:
        self._runtime = runtime
        self._handoffs = handoffs
        self._job = job
        self._send = send
        self._positions: dict[tuple[int, int], int] = {}
        self._tries = 0

    async def run(self, request: LogRequest) -> None:
        for position in request.positions:
            self._positions[position.task_index, position.attempt] = position.offset
        remote_id = await self._accepted_id(request.follow)
        if remote_id is None:
            await self._send(LogBatch(notice=f"{self._job.cluster} has not accepted this job, so there is no output"))
            return
        while True:
            try:
                # The peer's own time of submission is another.
                await self._relay(replace(request, job_id=remote_id, submitted_ms=None, nonce=self._job.nonce))
                return
            except (PeerRefused, PeerUnreachable) as cut:
                if isinstance(cut, PeerRefused) and cut.code not in PASSING:
                    await self._send(LogBatch(notice=await self._refusal(cut)))
                    return
                self._tries += 1
                ended = await self._ended()
                if not request.follow or (ended and self._tries >= RELAY_TRIES_AFTER_END):
                    raise Aborted(f"{self._job.cluster} cannot be reached for the output: {cut.message}") from cut
                if self._tries == 1:
                    await self._send(
                        LogBatch(notice=f"lost the connection to {self._job.cluster}; going on when it is back")
                    )
                jitter = self._runtime.entropy.jitter()
                wait_ms = backoff_ms(self._tries, RELAY_RETRY_BASE_MS, RELAY_RETRY_MAX_MS, jitter)
                await anyio.sleep(wait_ms / 1000)

    async def _refusal(self, refused: PeerRefused) -> str:
        if refused.code != "not_found":
            return f"{self._job.cluster} gives no output of this job: {refused.message}"
        if await self._ended():
            return f"{self._job.cluster} has removed this job after its time, and its output with it"
        return f"{self._job.cluster} does not know this job, so there is no output of it"

    async def _relay(self, request: LogRequest) -> None:
        positions = tuple(LogPosition(*key, offset) for key, offset in self._positions.items())
        batches = aiter(self._handoffs.client(self._job.cluster).read_logs(replace(request, positions=positions)))
        while True:
            try:
                # Who follows waits for what is written next; else a peer that hangs is not waited for.
                with anyio.fail_after(None if request.follow else RELAY_PATIENCE_S):
                    batch = await anext(batches)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise PeerUnreachable(f"it has sent nothing for {RELAY_PATIENCE_S:g} s") from error
            # Failures in a row count: over days many a connection is lost.
            self._tries = 0
            for line in batch.lines:
                self._positions[line.task_index, line.attempt] = line.next_offset
            await self._send(batch)

    async def _accepted_id(self, wait: bool) -> str | None:
        """The job's id on the peer, once the peer has it; None when it has not (or will not)."""
        async with self._runtime.signals.watch(self._job.uid) as news:
            while True:
                news.clear()
                job, handle = await self._runtime.db.read(
                    lambda tx: (job_by_uid(tx, self._job.uid), sent_by_nonce(tx, self._job.cluster, self._job.nonce))
                )
                if handle is not None and handle.acked_ms is not None:
                    return remote_id_of(handle, self._job.job_id)
                if not wait or job is None or job_ended(job.state):
                    return None
                with anyio.move_on_after(WAIT_S):
                    await news.wait()

    async def _ended(self) -> bool:
        job = await self._runtime.db.read(lambda tx: job_by_uid(tx, self._job.uid))
        return job is None or job_ended(job.state)


def _find(tx: Tx, request: LogRequest) -> tuple[Job | None, bool]:
    """The job that bears the id, and whether it is the incarnation that is meant."""
    job = job_by_id(tx, request.job_id)
    if job is None or request.submitted_ms not in (None, job.submitted_ms):
        return job, False
    return job, is_meant(tx, job, request.nonce)


def _task_and_attempts(tx: Tx, job: Job, index: int) -> tuple[Task, tuple[Attempt, ...]] | None:
    views = task_views(tx, job, [index]) if job_by_uid(tx, job.uid) else []
    return (views[0].task, views[0].attempts) if views else None


def _wanted(attempts: tuple[Attempt, ...], task: Task, request: LogRequest, done: int) -> list[Attempt]:
    if request.attempt is not None:
        return [attempt for attempt in attempts if attempt.number == request.attempt]
    first = task.current_attempt if done < 0 else done + 1
    resumed = [p.attempt for p in request.positions if p.task_index == task.index]
    if done < 0 and resumed:
        first = max(resumed)
    return [attempt for attempt in attempts if attempt.number >= first]


def _start(attempt: Attempt, request: LogRequest) -> tuple[int, int]:
    for position in request.positions:
        if (position.task_index, position.attempt) == (attempt.task_index, attempt.number):
            return position.offset, 0
    return 0, request.tail_lines


def _lines(attempt: Attempt, page: LogPage) -> tuple[TaskLogLine, ...]:
    return tuple(
        TaskLogLine(
            attempt.task_index,
            attempt.number,
            line.offset,
            line.offset + len(line.data),
            line.time_ms,
            line.data,
            line.dropped_bytes,
        )
        for line in page.lines
    )
