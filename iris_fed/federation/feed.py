"""Follows one peer's feed: asks for what changed since the cursor, or for everything, and applies it."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

import anyio

from iris_fed.config.sections import FederationSettings
from iris_fed.decide.asking import FullSetTimer, Heard, went_back
from iris_fed.decide.backoff import backoff_ms
from iris_fed.federation.adoption import Origin
from iris_fed.federation.contact import Contact, words
from iris_fed.federation.mirror import Applied, FullSet, Terms, apply_answer
from iris_fed.federation.outbox import Outbox
from iris_fed.model.federation import SyncAnswer, SyncRequest
from iris_fed.model.ports import PeerClient, PeerRefused, PeerUnreachable
from iris_fed.store.handles import is_any_missing
from iris_fed.store.runtime import Runtime
from iris_fed.supervise import Pulse, Wakeup
from iris_fed.telemetry import get_logger

PAGE_DELTAS = 500
RETRY_BASE_MS = 200
MAX_RETRY_MS = 10_000
"""A peer that is back is noticed by the heartbeat anyway, which wakes the sync."""
EMPTY_PAUSE_S = 0.5
"""After an answer that says nothing and was not held: a peer that is stopping gives such ones at once."""

TELL_SKIPPED_S = 60.0
"""A peer may send rows that cannot be used for ever; the log hears of it this often."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FeedTerms:
    """What a feed's reader knows of its own cluster. `forget` removes what attempts left that gave way to
    adopted jobs."""

    origin: Origin
    retention_ms: int
    forget: Callable[[Iterable[str]], Awaitable[None]]


class PeerProtocolError(Exception):
    """The peer's answer breaks the protocol; it is not applied, and asked for again later."""


class FeedReader:
    """`wake` it when the peer is back."""

    def __init__(
        self,
        runtime: Runtime,
        settings: FederationSettings,
        client: PeerClient,
        contact: Contact,
        outbox: Outbox,
        terms: FeedTerms,
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._client = client
        self._contact = contact
        self._outbox = outbox
        self._terms = terms
        self._full: FullSet | None = None
        self._page_cursor = ""
        self._timer = FullSetTimer(settings.lost_after_s)
        self._orphans: frozenset[str] = frozenset()
        self._skipped, self._tell_skipped_s = 0, 0.0
        self.wake = Wakeup()

    @property
    def orphans(self) -> frozenset[str]:
        """Remote ids of what the peer runs for this cluster, which does not follow it: the names are in use here."""
        return self._orphans

    async def run(self, pulse: Pulse) -> None:
        """Until cancelled."""
        # A page may have been cut off when this was last cancelled.
        self._full, self._page_cursor = None, ""
        self._interrupted()
        if await self._runtime.db.read(lambda tx: is_any_missing(tx, self._contact.peer)):
            self._timer.due = anyio.current_time()
        tries = 0
        while True:
            pulse.beat(self._settings.long_poll_ms / 1000 + self._settings.call_timeout_s)
            asked = anyio.current_time()
            try:
                request, answer, applied = await self._ask()
            except (PeerRefused, PeerUnreachable, TimeoutError, PeerProtocolError) as error:
                tries += 1
                await self._failed(error, asked)
                pause_ms = backoff_ms(tries, RETRY_BASE_MS, MAX_RETRY_MS, self._runtime.entropy.jitter())
                pulse.beat(pause_ms / 1000)
                await self.wake.wait(pause_ms / 1000)
                continue
            tries = 0
            await self._act_on(applied)
            pause_s = self._pause_s(request, answer, anyio.current_time() - asked)
            if applied.skipped and not applied.changed:
                # Nothing in it could be used: its sender is not asked as fast as it can answer.
                pause_s = max(pause_s, EMPTY_PAUSE_S)
            if pause_s:
                pulse.beat(pause_s)
                await self.wake.wait(pause_s)

    async def _act_on(self, applied: Applied) -> None:
        self._runtime.signals.publish(applied.changed)
        self._outbox.cancel_strays(applied.strays)
        if applied.replaced_attempts:
            await self._terms.forget(applied.replaced_attempts)
        if applied.changed:
            self._outbox.wake()

    def _pause_s(self, request: SyncRequest, answer: SyncAnswer, took_s: float) -> float:
        """Until the next request: none while there are pages, or where the peer holds its answers."""
        if answer.more:
            return 0.0
        if not answer.long_poll or not self._timer.hurried:
            return self._settings.poll_interval_s
        if answer.deltas or answer.cursor_stale:
            return 0.0
        if request.wait_ms == 0:
            return self._settings.poll_interval_s
        return 0.0 if took_s >= request.wait_ms / 2000 else EMPTY_PAUSE_S

    async def _ask(self) -> tuple[SyncRequest, SyncAnswer, Applied]:
        now, state = anyio.current_time(), self._contact.state
        in_pages = self._full is not None and bool(self._page_cursor)
        everything = not state.full_set_done or self._timer.due <= now
        cursor = self._page_cursor if in_pages else "" if everything else state.cursor
        longest_s = self._settings.long_poll_ms / 1000
        wait_ms = int(self._timer.wait_s(now, longest_s) * 1000) if cursor and not in_pages else 0
        request = SyncRequest(requester=self._runtime.cluster, cursor=cursor, wait_ms=wait_ms, max_deltas=PAGE_DELTAS)
        asked_ms = self._runtime.clock.now_ms()
        with anyio.fail_after(wait_ms / 1000 + self._settings.call_timeout_s):
            answer = await self._client.sync(request)
        if cursor and not in_pages:
            self._timer.on_cursor(anyio.current_time(), refused=answer.cursor_stale)
        return request, answer, await self._apply(request, answer, asked_ms)

    async def _apply(self, request: SyncRequest, answer: SyncAnswer, asked_ms: int) -> Applied:
        full = self._page_of(request, answer, asked_ms)
        if full is not None:
            full.add(answer)
        terms = Terms(
            self._contact.peer,
            asked_ms,
            self._runtime.clock.now_ms(),
            int(self._settings.lost_after_s * 1000),
            self._terms.retention_ms,
            self._terms.origin,
        )
        first = not self._contact.state.full_set_done
        applied = await self._runtime.db.write(lambda tx: apply_answer(tx, answer, terms, full))
        self._page_cursor = answer.next_cursor if answer.more else ""
        if full is not None and not answer.more:
            self._full = None
        self._note(request, answer, applied, full)
        await self._contact.answered(applied.state)
        if first and applied.state.full_set_done:
            self._outbox.wake()
        return applied

    def _page_of(self, request: SyncRequest, answer: SyncAnswer, asked_ms: int) -> FullSet | None:
        """The full set that the answer is a page of."""
        if answer.more and answer.next_cursor in ("", request.cursor):
            raise PeerProtocolError("more pages are promised, but the cursor does not move")
        if answer.cursor_stale:
            self._full = FullSet(asked_ms, answer.database_id)
        elif not request.cursor:
            raise PeerProtocolError("asked for everything, but the answer is no full set")
        elif self._full is not None and self._full.database_id != answer.database_id:
            raise PeerProtocolError("another database answers in the middle of a full set")
        return self._full

    def _note(self, request: SyncRequest, answer: SyncAnswer, applied: Applied, full: FullSet | None) -> None:
        plain = not answer.database_id
        if full is not None:
            full.orphans |= applied.orphans
        self._skipped += applied.skipped
        if self._skipped and anyio.current_time() >= self._tell_skipped_s:
            log.warning("sync.rows_skipped", peer=self._contact.peer, count=self._skipped)
            self._skipped, self._tell_skipped_s = 0, anyio.current_time() + TELL_SKIPPED_S
        ends = full is not None and not answer.more
        self._orphans = frozenset(full.orphans) if full is not None and ends else self._orphans | applied.orphans
        back = plain and went_back(request.cursor, answer.next_cursor)
        heard = Heard(
            unsettled=bool(applied.skipped or applied.overdue or applied.orphans),
            missing=applied.missing,
            in_full_set=full is not None,
            ends_full_set=ends,
            another=applied.another_database or applied.ambiguous or back,
            plain=plain,
        )
        self._timer.on_answer(anyio.current_time(), heard)

    def _interrupted(self) -> None:
        state = self._contact.state
        plain = state.full_set_done and not state.database_id
        self._timer.on_interruption(anyio.current_time(), plain=plain)

    async def _failed(self, error: Exception, asked: float) -> None:
        self._runtime.meters.call_failed(self._contact.peer, "sync")
        self._full, self._page_cursor = None, ""
        self._interrupted()
        if not isinstance(error, PeerUnreachable | TimeoutError) or getattr(error, "answered", False):
            self._timer.on_cursor(anyio.current_time(), refused=True)
            log.warning("sync.failed", peer=self._contact.peer, error=words(error))
        await self._contact.failed(error, asked)
