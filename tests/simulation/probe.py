"""Once all is quiet: a job handed off must be seen to end at once, since nothing may wait for a poll (promise 3)."""

import asyncio
from collections.abc import Mapping

from iris_fed.backends.base import AttemptEnd, EndKind, LaunchRequest
from iris_fed.client import command_job
from iris_fed.client.request import equals
from tests.simulation.cluster import HEARTBEAT_S, LONG_POLL_S, PLAIN_POLL_S, Cluster
from tests.simulation.users import Users
from tests.simulation.world import Violation

WITHIN_S = 1.0
"""A dozen messages on a network that is well."""
POLLED_WITHIN_S = PLAIN_POLL_S + WITHIN_S
"""Where the peer cannot hold an answer until there is news."""
Pairs = frozenset[tuple[str, str]]


async def probe(clusters: Mapping[str, Cluster], users: Users, plain: Pairs) -> None:
    """Raises Violation. `plain`: who speaks with whom without our extensions."""
    # A call that hangs since the storm may yet tell of a loss of contact, which the next heartbeat mends.
    await asyncio.sleep(LONG_POLL_S + HEARTBEAT_S)
    for cluster in clusters.values():
        cluster.engine.auto = _ends_at_once
    for cluster in clusters.values():
        for peer in cluster.plan.peers:
            within_s = POLLED_WITHIN_S if (cluster.name, peer) in plain else WITHIN_S
            await _probe(cluster, peer, users, within_s)


async def _probe(cluster: Cluster, peer: str, users: Users, within_s: float) -> None:
    request = command_job(["true"], name=f"/alice/probe-{peer}", cpu_millicores=100)
    request.constraints.append(equals("cluster", peer))
    await users.launch(cluster, request)
    await asyncio.sleep(within_s)
    assert cluster.life is not None
    assert cluster.life.observer is not None
    rows = cluster.life.observer.rows("SELECT state, pending_reason FROM jobs WHERE job_id = ?", request.name)
    shown = [tuple(row) for row in rows]
    if shown != [("SUCCEEDED", "")]:
        raise Violation(f"{cluster.name}: a job that ended at once on {peer} is, {within_s} s later, {shown}")


def _ends_at_once(request: LaunchRequest) -> AttemptEnd:
    return AttemptEnd(EndKind.EXITED, 0)
