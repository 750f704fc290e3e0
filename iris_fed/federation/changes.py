"""Serving FederationSync: what changed for one requester, or everything it handed to us.

An answer is built from one read snapshot and speaks of the present: the changelog only says of
what. Cursors are opaque to the parent: `<seq>.<stamp>`, and within a full set
`<seq>.<stamp>/<row>` where `<row>` is the last handle told, or `/<row>.<uid>` in the middle of its tree.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from iris_fed.auth.identity import Identity
from iris_fed.errors import PermissionDenied
from iris_fed.model.federation import ReceivedHandle, ServedChanges, ServedDelta, SyncRequest
from iris_fed.model.jobs import Job, JobReport
from iris_fed.model.limits import MAX_LONG_POLL_MS
from iris_fed.model.states import TERMINAL_JOB_STATES, JobState, ReceivedState
from iris_fed.store.changelog import (
    Cursor,
    changes_after,
    cursor_at,
    is_current,
    newest_cursor,
    newest_seq_of,
    parse_cursor,
)
from iris_fed.store.db import Tx
from iris_fed.store.handles import received_by_nonce, received_page
from iris_fed.store.jobs import job_by_id
from iris_fed.store.listing import job_view, task_views
from iris_fed.store.requesters import Heard
from iris_fed.store.runtime import Runtime
from iris_fed.store.tree import tree_below

MAX_PAGE = 1_000
MAX_ROWS_READ = 20_000
"""Changelog rows folded into one answer; what is behind them follows with the next."""
MAX_PAGE_TASKS = 10_000
"""After so many tasks a page of a full set ends: jobs of many would swell it beyond what a parent reads."""
MAX_DIGITS = 18
MAX_ALL_AT_ONCE = 100_000
"""For a parent without our extensions, which cannot read pages."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A cursor taken apart; `full_set_row` None = not within a full set. `full_set_uid` None = the
    handle of that row was told whole, else what is below it up to this job."""

    cursor: Cursor
    full_set_row: int | None
    full_set_uid: int | None = None


class ChangeFeed:
    """Answers FederationSync. `on_changelog` must be told after each commit for whom there is news."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._stopping = asyncio.Event()
        self._heard: dict[str, Heard] = {}

    def heard(self) -> Mapping[str, Heard]:
        """How far each requester has read, as far as its requests have shown since the start."""
        return dict(self._heard)

    def on_changelog(self, requesters: frozenset[str]) -> None:
        for requester in requesters:
            for event in self._waiting.get(requester, ()):
                event.set()

    def stop(self) -> None:
        """Answer every held request now."""
        self._stopping.set()
        for events in self._waiting.values():
            for event in events:
                event.set()

    async def serve(self, caller: Identity, request: SyncRequest) -> ServedChanges:
        """Holds the answer until there is news, at most `wait_ms`. Raises PermissionDenied."""
        if not caller.requester or caller.requester != request.requester:
            raise PermissionDenied("requester_id: a cluster may only ask for its own jobs")
        async with self._watch(request.requester) as news:
            with anyio.move_on_after(min(request.wait_ms, MAX_LONG_POLL_MS) / 1000):
                while True:
                    # The waiter is registered before the read: nothing falls between.
                    news.clear()
                    answer = await self._read(request)
                    if answer.deltas or answer.cursor_stale or answer.more or self._stopping.is_set():
                        return answer
                    await news.wait()
        return await self._read(request)

    async def _read(self, request: SyncRequest) -> ServedChanges:
        answer = await self._runtime.db.read(lambda tx: build_answer(tx, request, self._runtime.database_id))
        before = self._heard.get(request.requester)
        self._heard[request.requester] = heard_from(request, answer, before, self._runtime.clock.now_ms())
        return answer

    @asynccontextmanager
    async def _watch(self, requester: str) -> AsyncIterator[asyncio.Event]:
        event = asyncio.Event()
        self._waiting[requester].add(event)
        try:
            yield event
        finally:
            self._waiting[requester].discard(event)
            if not self._waiting[requester]:
                del self._waiting[requester]


def heard_from(request: SyncRequest, answer: ServedChanges, before: Heard | None, now_ms: int) -> Heard:
    """What a request shows of how far its requester has read: a cursor that comes back was stored with
    all that was told up to it. The latest counts, since a parent may be put back to an older one.

    Kept in memory only: were it forgotten, more is kept, or a full set is read.
    """
    asked, told = _parse(request.cursor), _parse(answer.next_cursor)
    assert told is not None
    acked_seq = before.acked_seq if before else None
    if asked is not None and asked.full_set_row is None and not answer.cursor_stale:
        acked_seq = asked.cursor.seq
    return Heard(acked_seq, told.cursor.seq, now_ms)


def build_answer(tx: Tx, request: SyncRequest, database_id: str) -> ServedChanges:
    """One answer from one snapshot."""
    place = _parse(request.cursor)
    if place is None or not is_current(tx, place.cursor, request.requester, database_id):
        start = newest_cursor(tx, database_id)
        return _full_set_page(tx, request, database_id, _Place(start, 0), stale=True)
    if place.full_set_row is not None:
        return _full_set_page(tx, request, database_id, place, stale=False)
    return _changes(tx, request, database_id, place.cursor)


def _changes(tx: Tx, request: SyncRequest, database_id: str, cursor: Cursor) -> ServedChanges:
    limit = min(request.max_deltas or MAX_ALL_AT_ONCE, MAX_PAGE if request.max_deltas else MAX_ALL_AT_ONCE)
    rows = changes_after(tx, request.requester, cursor.seq, MAX_ROWS_READ)
    folded: dict[tuple[str, str], set[int]] = {}
    last, more = cursor.seq, len(rows) == MAX_ROWS_READ
    for change in rows:
        key = (change.nonce, change.job_id)
        if key not in folded and len(folded) >= limit:
            more = True
            break
        tasks = folded.setdefault(key, set())
        if change.task_index is not None:
            tasks.add(change.task_index)
        last = change.seq
    # A job before what is below it, whichever changed first.
    for key in _ancestors_to_come(tx, request.requester, folded.keys(), last):
        folded.setdefault(key, set())
    told = sorted(folded.items(), key=lambda item: item[0][1].count("/"))
    deltas = [_present(tx, request, nonce, job_id, tasks) for (nonce, job_id), tasks in told]
    return ServedChanges(
        deltas=tuple(delta for delta in deltas if delta is not None),
        next_cursor=str(cursor if last == cursor.seq else cursor_at(tx, last)),
        cursor_stale=False,
        more=more,
        database_id=database_id,
    )


def _ancestors_to_come(tx: Tx, requester: str, told: Iterable[tuple[str, str]], last: int) -> set[tuple[str, str]]:
    """What is above the jobs told and has its own news only behind this page: no child comes without it."""
    above = {(nonce, parent) for nonce, job_id in told for parent in _ids_above(job_id)}
    return {(nonce, job_id) for nonce, job_id in above if newest_seq_of(tx, requester, nonce, job_id) > last}


def _ids_above(job_id: str) -> Iterator[str]:
    parts = job_id.split("/")
    # '/user/root' has none.
    for count in range(3, len(parts)):
        yield "/".join(parts[:count])


def _full_set_page(tx: Tx, request: SyncRequest, database_id: str, place: _Place, *, stale: bool) -> ServedChanges:
    limit = min(request.max_deltas, MAX_PAGE) if request.max_deltas else MAX_ALL_AT_ONCE
    begun = place.full_set_uid is not None
    rows = received_page(tx, request.requester, (place.full_set_row or 0) - begun, limit + 1)
    deltas: list[ServedDelta] = []
    tasks, last, full = 0, "", False
    for row, handle in rows[:limit]:
        since = place.full_set_uid if row == place.full_set_row else None
        for at, delta in _tree(tx, request, handle, since, limit + 1):
            full = len(deltas) >= limit or (request.max_deltas > 0 and tasks >= MAX_PAGE_TASKS)
            if full:
                break
            deltas.append(delta)
            tasks += len(delta.tasks)
            last = f"{row}.{at}"
        if full:
            break
        last = f"{row}"
    more = full or len(rows) > limit
    return ServedChanges(
        deltas=tuple(deltas),
        next_cursor=f"{place.cursor}/{last}" if more else str(place.cursor),
        cursor_stale=stale,
        more=more,
        database_id=database_id,
    )


def _tree(
    tx: Tx, request: SyncRequest, handle: ReceivedHandle, since_uid: int | None, limit: int
) -> Iterator[tuple[int, ServedDelta]]:
    """A handle's job with what is below it, each with its uid: the root first (as 0), so that no child comes
    without it. `since_uid` None = from the root on."""
    if since_uid is None:
        delta = _present(tx, request, handle.nonce, handle.job_id, None)
        if delta is not None:
            yield 0, delta
    root = job_by_id(tx, handle.job_id)
    if root is not None and root.nonce == handle.nonce:
        for job in tree_below(tx, root.uid, since_uid or 0, limit):
            yield job.uid, _alive(tx, job, None)


def _present(tx: Tx, request: SyncRequest, nonce: str, job_id: str, tasks: set[int] | None) -> ServedDelta | None:
    """The job as it is now (`tasks` None = with all of them), or a tombstone. None = nothing to tell."""
    job = job_by_id(tx, job_id)
    if job is not None and job.requester == request.requester and job.nonce == nonce:
        # Its end closes the parent's handle: what it has to say of its tasks must not come later.
        return _alive(tx, job, None if job.state in TERMINAL_JOB_STATES else tasks)
    handle = received_by_nonce(tx, request.requester, nonce)
    if handle is None or handle.state is ReceivedState.SUPERSEDED:
        return None
    if not request.max_deltas and (job is not None or handle.state is ReceivedState.FENCED):
        # A parent without our extensions knows no incarnations: it would delete its user's job.
        return None
    # How a child ended is not kept.
    end = _end_of(handle) if handle.job_id == job_id else None
    return ServedDelta(job_id=job_id, nonce=nonce, tombstone=True, end=end)


def _alive(tx: Tx, job: Job, tasks: set[int] | None) -> ServedDelta:
    indexes = None if tasks is None else sorted(tasks)
    return ServedDelta(
        job_id=job.job_id, nonce=job.nonce, view=job_view(tx, job), tasks=tuple(task_views(tx, job, indexes))
    )


def _end_of(handle: ReceivedHandle) -> JobReport | None:
    if handle.state is ReceivedState.FENCED:
        return JobReport(job_id=handle.job_id, state=JobState.KILLED, error="cancelled before it arrived")
    if handle.end_state is None:
        return None
    return JobReport(
        job_id=handle.job_id,
        state=handle.end_state,
        error=handle.end_error,
        exit_code=handle.end_exit_code,
        finished_ms=handle.end_finished_ms,
    )


def _parse(text: str) -> _Place | None:
    cursor_text, slash, row = text.partition("/")
    cursor = parse_cursor(cursor_text)
    row, dot, uid = row.partition(".")
    if cursor is None or (slash and not _is_number(row)) or (dot and not _is_number(uid)):
        return None
    return _Place(cursor, int(row) if slash else None, int(uid) if dot else None)


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) <= MAX_DIGITS
