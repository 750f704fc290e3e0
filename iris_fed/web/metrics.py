"""`/metrics`: what was counted, and what is so now, as Prometheus reads it (docs/metrics.md)."""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from iris_fed.clock import Clock
from iris_fed.model.federation import PeerView
from iris_fed.store.census import Census
from iris_fed.supervise import LoopReport
from iris_fed.web.hosts import HostGuard

KEPT_S = 5.0
PATIENCE = 20.0
"""Counting takes at most one part in so many of a reader's time, however large the tables are."""

MayRead = Callable[[Request], Awaitable[bool]]


class Metrics:
    """Gauges are brought up to date by a scrape, at most every KEPT_S seconds. The callables tell what is so
    now: rows counted, each peer, each background loop, writes that wait."""

    def __init__(
        self,
        registry: CollectorRegistry,
        clock: Clock,
        census: Callable[[], Awaitable[Census]],
        peers: Callable[[], Awaitable[Sequence[PeerView]]],
        loops: Callable[[], Iterable[LoopReport]],
        queued_writes: Callable[[], int],
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._census = census
        self._peers = peers
        self._loops = loops
        self._queued_writes = queued_writes
        self._next_at = float("-inf")

        def gauge(name: str, what: str, *labels: str) -> Gauge:
            return Gauge(f"iris_fed_{name}", what, labels, registry=registry)

        self._jobs = gauge("jobs", "Jobs that are remembered here, by state.", "state")
        self._tasks = gauge("tasks", "Tasks here that wait or live, by state.", "state")
        self._queue_age = gauge("queue_age_seconds", "How long the job that waits longest for a place has waited.")
        self._changelog = gauge("changelog_rows", "Rows of the changelog for other clusters.")
        self._unread = gauge(
            "requester_cursor_age_seconds", "Age of the oldest change a cluster has not read.", "requester"
        )
        self._queued = gauge("write_queue", "Writes that wait for their transaction.")
        self._reachable = gauge("peer_reachable", "1 = the last call to the peer was answered.", "peer")
        self._contact_age = gauge("peer_contact_age_seconds", "Since the peer last answered.", "peer")
        self._sync_age = gauge("peer_sync_age_seconds", "Since all of a peer's news had been read.", "peer")
        self._handed_off = gauge("peer_active_jobs", "Jobs handed to the peer that are not over.", "peer")
        self._undelivered = gauge("peer_waiting_deliveries", "Jobs that the peer has not taken yet.", "peer")
        self._restarts = gauge("loop_restarts", "How often a background loop was started again.", "loop")
        self._stuck = gauge("loop_trouble", "1 = a background loop is stuck or crashed.", "loop")

    def route(self, may_read: MayRead) -> Route:
        async def serve(request: Request) -> Response:
            if not await may_read(request):
                return PlainTextResponse("metrics are for who may see the peers, or on listen.metrics_port\n", 403)
            return Response(await self.scrape(), media_type=CONTENT_TYPE_LATEST)

        return Route("/metrics", serve)

    def alone(self) -> ASGIApp:
        """An application of its own, for a port of loopback: whoever reaches it may read."""

        async def anybody(_: Request) -> bool:
            return True

        return HostGuard(Starlette(routes=[self.route(anybody)]))

    async def scrape(self) -> bytes:
        now = time.monotonic()
        if now >= self._next_at:
            self._next_at = now + KEPT_S
            await self._count()
            self._next_at = max(self._next_at, now + PATIENCE * (time.monotonic() - now))
        for loop in self._loops():
            self._restarts.labels(loop.name).set(loop.restarts)
            self._stuck.labels(loop.name).set(bool(loop.problem))
        self._queued.set(self._queued_writes())
        return generate_latest(self._registry)

    async def _count(self) -> None:
        census, now_ms = await self._census(), self._clock.now_ms()
        _set_all(self._jobs, census.jobs)
        _set_all(self._tasks, census.tasks)
        since_ms = census.oldest_waiting_ms
        self._queue_age.set(0 if since_ms is None else _age_s(since_ms, now_ms))
        self._changelog.set(census.changelog_rows)
        _set_all(self._unread, {who: _age_s(at, now_ms) for who, at in census.unread_since_ms.items()})
        for peer in await self._peers():
            self._reachable.labels(peer.peer_id).set(peer.reachable)
            self._handed_off.labels(peer.peer_id).set(peer.active_jobs)
            self._undelivered.labels(peer.peer_id).set(peer.waiting_deliveries or 0)
            for gauge, at in ((self._contact_age, peer.last_contact_ms), (self._sync_age, peer.synced_ms)):
                gauge.labels(peer.peer_id).set(float("inf") if at is None else _age_s(at, now_ms))


def _set_all(gauge: Gauge, values: Mapping[str, float]) -> None:
    gauge.clear()
    for label, value in values.items():
        gauge.labels(label).set(value)


def _age_s(since_ms: int, now_ms: int) -> float:
    return max(0, now_ms - since_ms) / 1000
