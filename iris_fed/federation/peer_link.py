"""One peer: its heartbeat, its feed and our outbox to it. Nothing here touches another peer's link."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import anyio

from iris_fed.config.sections import FederationSettings
from iris_fed.decide.backoff import backoff_ms
from iris_fed.federation.mirror import Applied, FullSet, Terms, apply_answer
from iris_fed.federation.outbox import Outbox
from iris_fed.model.federation import PeerShape, PeerState, PeerView, SyncAnswer, SyncRequest
from iris_fed.model.ports import PeerClient, PeerRefused, PeerUnreachable
from iris_fed.model.resources import BackendSummary
from iris_fed.store.bundles import BundleStore
from iris_fed.store.db import Tx
from iris_fed.store.handles import load_peer, save_peer
from iris_fed.store.runtime import Runtime
from iris_fed.supervise import Wakeup, supervise
from iris_fed.telemetry import get_logger

PAGE_DELTAS = 500
FULL_SET_AGAIN_S = 60.0
MISSING_ASKS = 4
"""Full sets asked for within the grace after which a missing job is lost."""
RETRY_BASE_MS = 200
MAX_RETRY_MS = 10_000
"""A peer that is back is noticed by the heartbeat anyway, which wakes the sync."""
EMPTY_PAUSE_S = 0.5
"""After an answer that says nothing and was not held: a peer that is stopping gives such ones at once."""
MAX_CURSOR_REFUSALS = 3

T = TypeVar("T")
log = get_logger(__name__)


class PeerProtocolError(Exception):
    """The peer's answer breaks the protocol; it is not applied, and asked for again later."""


class PeerLink:
    """`run` it for as long as the controller lives."""

    def __init__(
        self,
        runtime: Runtime,
        settings: FederationSettings,
        peer: str,
        address: str,
        client: PeerClient,
        bundles: BundleStore,
    ) -> None:
        self.peer = peer
        self.address = address
        self.client = client
        self._runtime = runtime
        self._settings = settings
        self._state = PeerState(peer=peer)
        self._full: FullSet | None = None
        self._page_cursor = ""
        self._full_due = float("inf")
        self._cursor_refusals = 0
        self._full_at = float("-inf")
        self._heard = asyncio.Event()
        self._sync_wake = Wakeup()
        self.outbox = Outbox(runtime, settings, peer, client, bundles, lambda: self._state)

    async def run(self) -> None:
        self._state = await self._runtime.db.read(lambda tx: load_peer(tx, self.peer))
        await self.outbox.doubt_unanswered()
        async with anyio.create_task_group() as group:
            group.start_soon(supervise, f"heartbeat {self.peer}", self._heartbeat_loop)
            group.start_soon(supervise, f"sync {self.peer}", self._sync_loop)
            group.start_soon(supervise, f"outbox {self.peer}", self.outbox.run)

    @property
    def state(self) -> PeerState:
        return self._state

    @property
    def reachable(self) -> bool:
        return self._state.last_contact_ms is not None and self._state.lost_contact_ms is None

    @property
    def delivers_now(self) -> bool:
        """Whether a new handle's first delivery is tried at once."""
        return self._state.full_set_done and self.reachable

    def shape(self) -> PeerShape:
        return PeerShape(self.peer, self.reachable, self._state.backends)

    def view(self, active_jobs: int) -> PeerView:
        state = self._state
        return PeerView(
            peer_id=self.peer,
            address=self.address,
            reachable=self.reachable,
            last_contact_ms=state.last_contact_ms,
            unreachable_since_ms=state.lost_contact_ms,
            active_jobs=active_jobs,
            backends=state.backends or (),
            backends_observed_ms=state.backends_ms,
            last_error=state.last_error,
        )

    async def wait_heard(self) -> None:
        """Until the peer's backends are known."""
        if self._state.backends is None:
            await self._heard.wait()

    # --- heartbeat ---

    async def _heartbeat_loop(self) -> None:
        while True:
            started = anyio.current_time()
            try:
                with anyio.fail_after(self._settings.heartbeat_timeout_s):
                    backends = await self.client.list_backends()
            except (PeerRefused, PeerUnreachable, TimeoutError) as error:
                await self._lost_contact(_words(error))
            else:
                await self._heard_of(backends)
            await anyio.sleep(max(0.0, self._settings.heartbeat_interval_s - (anyio.current_time() - started)))

    async def _heard_of(self, backends: tuple[BackendSummary, ...]) -> None:
        now_ms = self._runtime.clock.now_ms()
        back = not self.reachable
        await self._change_state(
            lambda state: replace(
                state,
                last_contact_ms=now_ms,
                lost_contact_ms=None,
                last_error="",
                backends=backends,
                backends_ms=now_ms,
            )
        )
        self._heard.set()
        if back:
            self._sync_wake()
            await self._contact_is_back()

    async def _contact_is_back(self) -> None:
        log.info("peer.reachable", peer=self.peer)
        await self.outbox.retry_now()

    async def _lost_contact(self, error: str) -> None:
        now_ms = self._runtime.clock.now_ms()
        if self._state.lost_contact_ms is None:
            # Remembered is the first loss, not the latest failure.
            log.warning("peer.unreachable", peer=self.peer, error=error)
            await self._change_state(lambda state: replace(state, lost_contact_ms=now_ms, last_error=error))
        elif self._state.last_error != error:
            await self._change_state(lambda state: replace(state, last_error=error))

    async def _change_state(self, change: Callable[[PeerState], PeerState]) -> None:
        def closure(tx: Tx) -> PeerState:
            state = change(load_peer(tx, self.peer))
            save_peer(tx, state)
            return state

        self._state = await self._runtime.db.write(closure)

    # --- sync ---

    async def _sync_loop(self) -> None:
        tries = 0
        while True:
            asked = anyio.current_time()
            try:
                request, answer, applied = await self._sync_once()
            except (PeerRefused, PeerUnreachable, TimeoutError, PeerProtocolError) as error:
                tries += 1
                await self._sync_failed(error)
                pause_ms = backoff_ms(tries, RETRY_BASE_MS, MAX_RETRY_MS, self._runtime.entropy.jitter())
                await self._sync_wake.wait(pause_ms / 1000)
                continue
            tries = 0
            self._runtime.signals.publish(applied.changed)
            self.outbox.cancel_strays(applied.strays)
            if applied.changed:
                self.outbox.wake()
            pause_s = self._pause_s(request, answer, anyio.current_time() - asked)
            if pause_s:
                await self._sync_wake.wait(pause_s)

    def _pause_s(self, request: SyncRequest, answer: SyncAnswer, took_s: float) -> float:
        """Until the next request: none while there are pages, or where the peer holds its answers."""
        if answer.more:
            return 0.0
        if not answer.long_poll or self._cursor_refusals >= MAX_CURSOR_REFUSALS:
            return self._settings.poll_interval_s
        if answer.deltas or answer.cursor_stale:
            return 0.0
        if request.wait_ms == 0:
            return self._settings.poll_interval_s
        return 0.0 if took_s >= request.wait_ms / 2000 else EMPTY_PAUSE_S

    async def _sync_once(self) -> tuple[SyncRequest, SyncAnswer, Applied]:
        now = anyio.current_time()
        full_asked = not self._state.full_set_done or self._full_due <= now
        in_pages = self._full is not None and bool(self._page_cursor)
        cursor = self._page_cursor if in_pages else "" if full_asked else self._state.cursor
        wait_ms = 0 if not cursor or in_pages else min(self._settings.long_poll_ms, self._until_full_set_ms(now))
        request = SyncRequest(requester=self._runtime.cluster, cursor=cursor, wait_ms=wait_ms, max_deltas=PAGE_DELTAS)
        asked_ms = self._runtime.clock.now_ms()
        with anyio.fail_after(wait_ms / 1000 + self._settings.call_timeout_s):
            answer = await self.client.sync(request)
        if cursor and not in_pages:
            self._cursor_refusals = self._cursor_refusals + 1 if answer.cursor_stale else 0
        return request, answer, await self._apply(request, answer, asked_ms)

    def _until_full_set_ms(self, now: float) -> int:
        return self._settings.long_poll_ms if self._full_due == float("inf") else int((self._full_due - now) * 1000)

    async def _apply(self, request: SyncRequest, answer: SyncAnswer, asked_ms: int) -> Applied:
        if answer.cursor_stale:
            self._full = FullSet(asked_ms)
        elif not request.cursor:
            raise PeerProtocolError("asked for everything, but the answer is no full set")
        if answer.more and answer.next_cursor in ("", request.cursor):
            raise PeerProtocolError("more pages are promised, but the cursor does not move")
        full = self._full
        if full is not None:
            full.add(answer)
        lost_after_ms = int(self._settings.lost_after_s * 1000)
        terms = Terms(self.peer, self._runtime.clock.now_ms(), lost_after_ms)
        first_full_set, back = not self._state.full_set_done, not self.reachable
        applied = await self._runtime.db.write(lambda tx: apply_answer(tx, answer, terms, full))
        self._state = applied.state
        if answer.backends is not None:
            self._heard.set()
        self._page_cursor = answer.next_cursor if answer.more else ""
        if full is not None and not answer.more:
            self._full, self._full_at = None, anyio.current_time()
        self._full_due = self._next_full_set(applied)
        if applied.skipped:
            log.warning("sync.rows_skipped", peer=self.peer, count=applied.skipped)
        if back:
            await self._contact_is_back()
        elif first_full_set and self._state.full_set_done:
            self.outbox.wake()
        return applied

    def _next_full_set(self, applied: Applied) -> float:
        """When to ask for everything again, by the loop's clock: while a job is missing, after rows
        that could not be read, and when news of a job is overdue; never more often than that."""
        if applied.missing:
            return self._full_at + self._settings.lost_after_s / MISSING_ASKS
        if applied.skipped or applied.overdue:
            return max(anyio.current_time(), self._full_at + FULL_SET_AGAIN_S)
        return self._full_due if self._full_due > self._full_at else float("inf")

    async def _sync_failed(self, error: Exception) -> None:
        self._full, self._page_cursor = None, ""
        if isinstance(error, PeerUnreachable | TimeoutError):
            await self._lost_contact(_words(error))
        else:
            log.warning("sync.failed", peer=self.peer, error=_words(error))
            words = _words(error)
            await self._change_state(lambda state: replace(state, last_error=words))


def _words(error: Exception) -> str:
    match error:
        case TimeoutError():
            return "no answer in time"
        case PeerRefused(code=code, message=message):
            return f"it answered {code}: {message}"
        case PeerUnreachable(message=message):
            return message
        case _:
            return str(error)
