"""Output is that of the submission which is followed, not of another that has taken its id."""

import asyncio

import pytest

from iris_fed.rpc.gen.irisfed.cluster_pb2 import ReadLogsRequest
from iris_fed.rpc.gen.job import job_pb2
from tests.federation.world import (
    RUNNING,
    WITHIN_S,
    Cluster,
    Pair,
    World,
    as_peer,
    gpu_job,
    job_of,
    seen,
    started,
    until,
)

RECREATE = job_pb2.EXISTING_JOB_POLICY_RECREATE


async def lines(cluster: Cluster, job_id: str, submitted_ms: int | None, *, follow: bool = False) -> list[bytes]:
    stream = cluster.client.logs(job_id, submitted_ms=submitted_ms, follow=follow)
    async with asyncio.timeout(WITHIN_S):
        return [line.data async for batch in stream for line in batch.lines]


async def replace(user: Cluster, place: Cluster, first: str) -> None:
    """Submit the job anew; the second runs and has printed `second`. `first` is the attempt that ends."""
    submitting = asyncio.create_task(user.client.submit(gpu_job(existing_job_policy=RECREATE)))

    async def second() -> str | None:
        later = [request.attempt_uid for request in place.engine.launched if request.attempt_uid != first]
        return later[0] if later else None

    uid = await until(second)
    assert uid is not None
    place.engine.write(uid, b"second\n")
    await seen(user, await submitting, RUNNING)


@pytest.mark.parametrize("where", ["here", "on a peer"])
async def test_who_names_a_submission_gets_nothing_of_the_next(world: World, where: str) -> None:
    if where == "here":
        user = place = await world.add("solo", h100=8)
    else:
        pair = await world.pair()
        user, place = pair.hub, pair.lab
    job_id = await user.client.submit(gpu_job())
    (first,) = await started(place)
    place.engine.write(first, b"first\n")
    before = (await seen(user, job_id, RUNNING)).submitted_at.epoch_ms
    assert await lines(user, job_id, before) == [b"first\n"]
    following = asyncio.create_task(lines(user, job_id, before, follow=True))
    await replace(user, place, first)
    assert await following in ([], [b"first\n"])
    now = (await job_of(user, job_id)).submitted_at.epoch_ms
    assert now != before
    assert await lines(user, job_id, before) == await lines(user, job_id, before, follow=True) == []
    assert await lines(user, job_id, now) == await lines(user, job_id, None) == [b"second\n"]


async def test_a_relay_that_asks_late_gets_nothing_of_the_next_submission(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (first,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    pair.wire.hang("ReadLogs", 1)
    following = asyncio.create_task(lines(pair.hub, job_id, None, follow=True))

    async def asked() -> bool:
        return bool(pair.wire.held)

    await until(asked)
    await replace(pair.hub, pair.lab, first)
    status, body = await asyncio.wait_for(pair.wire.deliver_late(pair.wire.held[0]), WITHIN_S)
    assert (status, b"second" in body) == (200, False)
    pair.wire.mend()
    assert await following == []


async def test_a_peer_tells_a_known_handoff_only_its_own_output(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (first,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    (old,) = await pair.lab.rows("SELECT nonce, job_id FROM jobs")
    await replace(pair.hub, pair.lab, first)
    (new,) = await pair.lab.rows("SELECT nonce FROM jobs")

    async def told(nonce: str) -> list[bytes]:
        request = ReadLogsRequest(id=old["job_id"], handoff_nonce=nonce)
        stream = as_peer(pair.hub, pair.lab).streams.read_logs(request)
        return [line.data async for batch in stream for line in batch.lines]

    assert await told(old["nonce"]) == []
    for nonce in (new["nonce"], "", "unknown.nonce"):
        assert await told(nonce) == [b"second\n"]
