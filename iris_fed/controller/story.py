"""What happened to a job, in order: here, and on the peer that runs it."""

from dataclasses import replace

import anyio

from iris_fed.controller.query import Queries
from iris_fed.model.jobs import JobEvent
from iris_fed.model.ports import Handoffs, PeerRefused, PeerUnreachable
from iris_fed.store.handles import sent_by_nonce
from iris_fed.store.runtime import Runtime

PEER_PATIENCE_S = 3.0
"""The peer's part is worth a short wait; without it the story is told from here."""


class Story:
    def __init__(self, runtime: Runtime, queries: Queries, handoffs: Handoffs) -> None:
        self._runtime = runtime
        self._queries = queries
        self._handoffs = handoffs

    async def events(self, job_id: str, nonce: str = "") -> list[JobEvent]:
        """Oldest first. Raises InvalidArgument and NotFound, also where the job is not of the handoff `nonce`
        ("" = whichever bears the id)."""
        own = await self._queries.events(job_id, nonce)
        view, _ = await self._queries.job(job_id)
        job = view.job
        if not job.cluster or job.parent_uid is not None:
            return own
        handle = await self._runtime.db.read(lambda tx: sent_by_nonce(tx, job.cluster, job.nonce))
        if handle is None or handle.acked_ms is None:
            return own
        theirs: tuple[JobEvent, ...] = ()
        try:
            with anyio.move_on_after(PEER_PATIENCE_S):
                theirs = await self._handoffs.client(job.cluster).list_events(handle.remote_job_id, job.nonce)
        except (PeerRefused, PeerUnreachable):
            theirs = ()
        if not theirs:
            missing = f"what happened there cannot be had from {job.cluster} now"
            own = [*own, JobEvent(0, self._runtime.clock.now_ms(), "peer.silent", missing)]
        told = [replace(event, message=f"{job.cluster}: {event.message}") for event in theirs]
        return sorted([*own, *told], key=lambda event: event.time_ms)
