"""All peers of this cluster, and the way out to them. With none declared it does nothing at all."""

from collections.abc import Iterable

import anyio

from iris_fed.auth.nonces import NonceMint
from iris_fed.config.sections import FederationSettings
from iris_fed.errors import NotFound
from iris_fed.federation.forget import forget_peer
from iris_fed.federation.peer_link import PeerLink
from iris_fed.model.federation import PeerShape, PeerView, SentHandle
from iris_fed.model.ids import fold_remote_id, parse_job_id
from iris_fed.model.ports import PeerClient
from iris_fed.model.spec import Submission
from iris_fed.store.handles import count_open_sent, count_waiting_sent
from iris_fed.store.runtime import Runtime
from iris_fed.telemetry import get_logger

log = get_logger(__name__)


class Federation:
    """Implements `Handoffs`. `mint` is None only when there is no peer."""

    def __init__(
        self, runtime: Runtime, settings: FederationSettings, links: Iterable[PeerLink], mint: NonceMint | None
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._links = {link.peer: link for link in links}
        self._mint = mint

    async def run(self) -> None:
        """Until cancelled; returns at once without peers."""
        await self._warn_of_undeclared()
        async with anyio.create_task_group() as group:
            for link in self._links.values():
                group.start_soon(link.run)

    async def _warn_of_undeclared(self) -> None:
        for peer, count in (await self._runtime.db.read(count_open_sent)).items():
            if peer not in self._links:
                log.warning(
                    "peer.undeclared", peer=peer, jobs=count, remedy=f"declare it, or: iris-fed peer forget {peer}"
                )

    def link(self, peer: str) -> PeerLink:
        """Raises NotFound for a peer that is not declared."""
        if peer not in self._links:
            known = ", ".join(sorted(self._links)) or "none"
            raise NotFound(f"there is no peer {peer!r} in the configuration (declared: {known})")
        return self._links[peer]

    @property
    def peer_names(self) -> tuple[str, ...]:
        return tuple(sorted(self._links))

    async def views(self) -> list[PeerView]:
        """Every declared peer, as ListPeers shows it."""
        if not self._links:
            return []
        counts, waiting = await self._runtime.db.read(lambda tx: (count_open_sent(tx), count_waiting_sent(tx)))
        return [self._links[name].view(counts.get(name, 0), waiting.get(name, 0)) for name in self.peer_names]

    async def forget(self, peer: str, who: str) -> int:
        """Give a peer up, declared or not: its unfinished jobs end as lost. Returns how many.

        Raises NotFound when it is neither declared nor has jobs of ours."""
        counts = await self._runtime.db.read(count_open_sent)
        if peer not in counts:
            self.link(peer)
        count = await forget_peer(self._runtime, peer, who)
        if peer in self._links:
            await self._links[peer].start_over()
        return count

    # --- Handoffs ---

    def shapes(self) -> tuple[PeerShape, ...]:
        return tuple(self._links[name].shape() for name in self.peer_names)

    async def await_first_contact(self, peers: tuple[str, ...]) -> None:
        with anyio.move_on_after(self._settings.first_heartbeat_wait_s):
            async with anyio.create_task_group() as group:
                for name in peers:
                    if name in self._links:
                        group.start_soon(self._links[name].wait_heard)

    def new_handle(self, job_id: str, peer: str, submission: Submission, owner: str, submitter: str) -> SentHandle:
        assert self._mint is not None
        now_ms = self._runtime.clock.now_ms()
        remote_id = str(fold_remote_id(parse_job_id(job_id), self._runtime.cluster))
        timeout_ms = submission.spec.scheduling_timeout_ms
        expiry_ms = int(self._settings.handoff_expiry_s * 1000)
        # Only a delivery that `deliver_now` will try at once may be marked by the submit itself.
        sent = self._links[peer].delivers_now
        return SentHandle(
            nonce=self._mint.mint(self._runtime.entropy.token(), peer, remote_id),
            peer=peer,
            job_id=job_id,
            remote_job_id=remote_id,
            policy=submission.policy,
            owner=owner,
            submitting_user=submitter,
            created_ms=now_ms,
            expires_ms=now_ms + (expiry_ms if timeout_ms is None else min(expiry_ms, timeout_ms)),
            sent=sent,
            deliveries=int(sent),
            database_id=self._links[peer].state.database_id if sent else "",
        )

    async def deliver_now(self, peer: str, nonce: str) -> None:
        link = self._links.get(peer)
        if link is None:
            return
        if link.delivers_now:
            await link.outbox.deliver_now(nonce)
        else:
            link.outbox.wake()

    def wake(self, peer: str) -> None:
        link = self._links.get(peer)
        if link is not None:
            link.outbox.wake()

    def cancel_child(self, peer: str, job_id: str, nonce: str) -> None:
        link = self._links.get(peer)
        if link is not None:
            link.outbox.cancel_strays(((str(fold_remote_id(parse_job_id(job_id), self._runtime.cluster)), nonce),))

    def client(self, peer: str) -> PeerClient:
        return self.link(peer).client
