"""Where a job goes, and what its user is told when it can go nowhere."""

import asyncio
import time

import pytest

from iris_fed.errors import FailedPrecondition, InvalidArgument
from iris_fed.rpc.gen.job import job_pb2
from tests.federation.world import (
    RUNNING,
    SUCCEEDED,
    Pair,
    World,
    cpu_job,
    gpu_job,
    in_contact,
    pinned,
    seen,
    started,
    until,
)


async def test_a_job_that_fits_here_stays_here_although_a_peer_could_host_it_too(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(cpu_job())
    (uid,) = await started(pair.hub)
    pair.hub.engine.finish(uid)
    job = await seen(pair.hub, job_id, SUCCEEDED)
    assert job.cluster == ""
    assert job.peer_status == job_pb2.PEER_STATUS_NONE
    assert "LaunchJob" not in pair.wire.seen


async def test_a_job_that_only_the_peer_can_host_is_handed_off_under_a_folded_name(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job("train"))
    user = job_id.split("/")[1]
    assert job_id == f"/{user}/train"
    (uid,) = await started(pair.lab)
    assert pair.lab.engine.launched[0].task_id == f"/{user}/hub.train/0"
    pair.lab.engine.finish(uid)
    job = await seen(pair.hub, job_id, SUCCEEDED, status="SYNCED")
    assert job.cluster == "lab"
    assert not pair.hub.engine.launched


async def test_a_pinned_job_goes_to_the_named_cluster_even_when_it_fits_here(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(pinned(cpu_job(), cluster="lab"))
    (uid,) = await started(pair.lab)
    pair.lab.engine.finish(uid)
    assert (await seen(pair.hub, job_id, SUCCEEDED)).cluster == "lab"


async def test_a_pin_to_a_cluster_that_is_no_peer_is_refused_by_name(pair: Pair) -> None:
    with pytest.raises(InvalidArgument, match=r"constraints: cluster 'nowhere' is no configured peer .*lab"):
        await pair.hub.client.submit(pinned(cpu_job(), cluster="nowhere"))


async def test_a_job_pinned_to_a_cluster_and_a_backend_is_refused(pair: Pair) -> None:
    with pytest.raises(InvalidArgument, match="constraints"):
        await pair.hub.client.submit(pinned(gpu_job(), cluster="lab", backend="gpu"))


async def test_a_job_that_nobody_can_host_is_refused_with_what_each_place_lacks(pair: Pair) -> None:
    with pytest.raises(FailedPrecondition, match=r"hub-node: device-type.*lab: one replica asks for 16 x h100.* 8"):
        await pair.hub.client.submit(gpu_job(count=16))
    assert await pair.hub.rows("SELECT 1 FROM jobs") == []


async def test_a_job_for_an_unreachable_peer_whose_last_shape_fits_is_taken_and_delivered_when_it_is_back(
    pair: Pair,
) -> None:
    pair.wire.cut()
    await in_contact(pair.hub, reachable=False)
    job_id = await pair.hub.client.submit(gpu_job())
    await seen(pair.hub, job_id, status="PENDING_SCHEDULING")
    pair.wire.mend()
    await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)


async def test_a_submit_waits_for_the_first_word_of_a_peer_and_then_goes_there(world: World) -> None:
    lab = await world.add("lab", start=False, h100=8, trusts={"hub": ["*"]})
    hub = await world.add("hub", peers=("lab",), federation={"first_heartbeat_wait_s": 10.0})
    submit = asyncio.create_task(hub.client.submit(gpu_job()))
    await until(lambda: _true("ListBackends" in world.wire("hub", "lab").seen))
    assert not submit.done()
    await lab.start()
    await seen(hub, await submit, RUNNING)


async def test_a_submit_is_refused_when_a_peer_that_was_never_heard_stays_silent(world: World) -> None:
    await world.add("lab", start=False, h100=8, trusts={"hub": ["*"]})
    hub = await world.add("hub", peers=("lab",), federation={"first_heartbeat_wait_s": 0.2})
    began = time.monotonic()
    with pytest.raises(FailedPrecondition, match="lab has not answered yet"):
        await hub.client.submit(gpu_job())
    assert 0.15 < time.monotonic() - began < 2.0


async def _true(value: bool) -> bool:
    return value
