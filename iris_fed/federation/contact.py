"""What is known of one peer, and whether it is there: kept in the database, so that a restart goes on with it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio

from iris_fed.model.federation import PeerState
from iris_fed.model.ports import PeerRefused, PeerUnreachable
from iris_fed.model.resources import BackendSummary, without_times
from iris_fed.store.db import Tx
from iris_fed.store.handles import load_peer, save_peer
from iris_fed.store.runtime import Runtime
from iris_fed.telemetry import get_logger

log = get_logger(__name__)


class Contact:
    """`on_back` is awaited when the peer answers again, or for the first time."""

    def __init__(self, runtime: Runtime, peer: str, on_back: Callable[[], Awaitable[None]]) -> None:
        self.peer = peer
        self.state = PeerState(peer=peer)
        self._runtime = runtime
        self._on_back = on_back
        self._heard = asyncio.Event()
        self._answered_at = float("-inf")

    async def load(self) -> None:
        self.state = await self._runtime.db.read(lambda tx: load_peer(tx, self.peer))

    @property
    def reachable(self) -> bool:
        return self.state.last_contact_ms is not None and self.state.lost_contact_ms is None

    async def wait_heard(self) -> None:
        """Until the peer's backends are known."""
        if self.state.backends is None:
            await self._heard.wait()

    async def heard_of(self, backends: tuple[BackendSummary, ...]) -> None:
        """It answered a heartbeat."""
        self._answered_at = anyio.current_time()
        now_ms, back, before = self._runtime.clock.now_ms(), not self.reachable, self.state
        await self._change(
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
        self._tell(before)
        if back:
            await self._is_back()

    async def answered(self, state: PeerState) -> None:
        """It answered a sync, whose transaction made this of its state."""
        self._answered_at = anyio.current_time()
        back, before, self.state = not self.reachable, self.state, state
        self._tell(before)
        if state.backends is not None:
            self._heard.set()
        if back:
            await self._is_back()

    async def failed(self, error: Exception, sent_at: float) -> None:
        """A call that left at `sent_at`, by the event loop's clock, brought no answer that can be used."""
        if sent_at < self._answered_at:
            # The peer has answered another call since: it is there.
            return
        now_ms, error_words = self._runtime.clock.now_ms(), words(error)
        gone = isinstance(error, PeerUnreachable | TimeoutError)
        if gone and self.state.lost_contact_ms is None:
            # Remembered is the first loss, not the latest failure.
            log.warning("peer.unreachable", peer=self.peer, error=error_words)
            await self._change(lambda state: replace(state, lost_contact_ms=now_ms, last_error=error_words))
            self._runtime.news.publish(peers=True)
        elif self.state.last_error != error_words:
            await self._change(lambda state: replace(state, last_error=error_words))
            self._runtime.news.publish(peers=True)

    def _tell(self, before: PeerState) -> None:
        """A heartbeat that says what the one before said is no news."""

        def shown(state: PeerState) -> tuple[object, ...]:
            return state.last_contact_ms is None, state.lost_contact_ms, state.last_error, without_times(state.backends)

        if shown(before) != shown(self.state):
            self._runtime.news.publish(peers=True)

    async def _is_back(self) -> None:
        log.info("peer.reachable", peer=self.peer)
        await self._on_back()

    async def _change(self, change: Callable[[PeerState], PeerState]) -> None:
        def closure(tx: Tx) -> PeerState:
            state = change(load_peer(tx, self.peer))
            save_peer(tx, state)
            return state

        self.state = await self._runtime.db.write(closure)


def words(error: Exception) -> str:
    """A failure of a call in a sentence for the operator."""
    match error:
        case TimeoutError():
            return "no answer in time"
        case PeerRefused(code=code, message=message):
            return f"it answered {code}: {message}"
        case PeerUnreachable(message=message):
            return message
        case _:
            return str(error)
