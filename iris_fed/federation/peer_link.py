"""One peer: its heartbeat, its feed and our outbox to it. Nothing here touches another peer's link."""

import anyio

from iris_fed.config.sections import FederationSettings
from iris_fed.federation.contact import Contact
from iris_fed.federation.feed import FeedReader, FeedTerms
from iris_fed.federation.outbox import Outbox
from iris_fed.model.federation import PeerShape, PeerState, PeerView
from iris_fed.model.ports import PeerClient, PeerRefused, PeerUnreachable
from iris_fed.store.bundles import BundleStore
from iris_fed.store.runtime import Runtime
from iris_fed.supervise import Pulse


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
        terms: FeedTerms,
    ) -> None:
        self.peer = peer
        self.address = address
        self.client = client
        self._runtime = runtime
        self._settings = settings
        self._contact = Contact(runtime, peer, self._is_back)
        self.outbox = Outbox(runtime, settings, peer, client, bundles, lambda: self._contact.state)
        self._feed = FeedReader(runtime, settings, client, self._contact, self.outbox, terms)

    async def run(self) -> None:
        await self._contact.load()
        await self.outbox.doubt_unanswered()
        async with anyio.create_task_group() as group:
            supervise = self._runtime.loops.supervise
            group.start_soon(supervise, f"heartbeat {self.peer}", self._heartbeat)
            group.start_soon(supervise, f"sync {self.peer}", self._feed.run)
            group.start_soon(supervise, f"outbox {self.peer}", self.outbox.run)

    @property
    def state(self) -> PeerState:
        return self._contact.state

    @property
    def reachable(self) -> bool:
        return self._contact.reachable

    @property
    def delivers_now(self) -> bool:
        """Whether a new handle's first delivery is tried at once."""
        return self.state.full_set_done and self.reachable

    def shape(self) -> PeerShape:
        return PeerShape(self.peer, self.reachable, self.state.backends)

    def view(self, active_jobs: int, waiting_deliveries: int) -> PeerView:
        state = self.state
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
            orphans=tuple(sorted(self._feed.orphans)),
            synced_ms=state.synced_ms,
            waiting_deliveries=waiting_deliveries,
            last_refusal=self.outbox.last_refusal,
        )

    async def wait_heard(self) -> None:
        """Until the peer's backends are known."""
        await self._contact.wait_heard()

    async def start_over(self) -> None:
        """What is known of the peer's feed was forgotten: it is asked for everything."""
        await self._contact.load()
        self._feed.wake()

    async def _is_back(self) -> None:
        self._feed.wake()
        await self.outbox.retry_now()

    async def _heartbeat(self, pulse: Pulse) -> None:
        while True:
            pulse.beat(self._settings.heartbeat_interval_s)
            started = anyio.current_time()
            try:
                with anyio.fail_after(self._settings.heartbeat_timeout_s):
                    backends = await self.client.list_backends()
            except (PeerRefused, PeerUnreachable, TimeoutError) as error:
                self._runtime.meters.call_failed(self.peer, "heartbeat")
                await self._contact.failed(error, started)
            else:
                await self._contact.heard_of(backends)
            await anyio.sleep(max(0.0, self._settings.heartbeat_interval_s - (anyio.current_time() - started)))
