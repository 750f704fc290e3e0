"""Wires together what is counted."""

from collections.abc import Awaitable, Callable

import anyio
from prometheus_client import CollectorRegistry
from starlette.requests import Request

from iris_fed.auth.authenticator import Authenticator
from iris_fed.auth.identity import Role
from iris_fed.auth.policy import check_allowed
from iris_fed.errors import IrisFedError
from iris_fed.federation.changes import ChangeFeed
from iris_fed.federation.registry import Federation
from iris_fed.rpc.gate import joined
from iris_fed.store.census import Census, take_census
from iris_fed.store.runtime import Runtime
from iris_fed.web.meters import CountingMeters
from iris_fed.web.metrics import Metrics

LAG_EVERY_S = 1.0
_READER = "iris.cluster.ControllerService/ListPeers"
"""Whoever may call this may read the metrics."""


def build_metrics(registry: CollectorRegistry, runtime: Runtime, federation: Federation, feed: ChangeFeed) -> Metrics:
    """`registry` is the one in which the runtime's meters count."""

    async def census() -> Census:
        acked = {requester: heard.acked_seq for requester, heard in feed.heard().items()}
        return await runtime.db.read(lambda tx: take_census(tx, acked))

    return Metrics(
        registry, runtime.clock, census, federation.views, runtime.loops.report, lambda: runtime.db.queued_writes
    )


def may_read_metrics(authenticator: Authenticator, *, users_see_all: bool) -> Callable[[Request], Awaitable[bool]]:
    """Whoever may see the peers; where users see only their own jobs, administrators, since counts are of all."""

    async def may_read(request: Request) -> bool:
        peer = f"{request.client.host}:{request.client.port}" if request.client else ""
        try:
            who = await authenticator.authenticate(joined(request.headers.items()), peer)
            check_allowed(who, _READER)
        except IrisFedError:
            return False
        return who.role is Role.ADMIN or (users_see_all and who.role is not Role.JOB)

    return may_read


async def watch_event_loop(meters: CountingMeters) -> None:
    """Until cancelled: how late a timer comes is how long whatever else waits."""
    while True:
        due = anyio.current_time() + LAG_EVERY_S
        await anyio.sleep(LAG_EVERY_S)
        meters.looped(max(0.0, anyio.current_time() - due))
