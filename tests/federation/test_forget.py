"""Giving up a peer that never comes back."""

import pytest

from iris_fed.client import Client
from iris_fed.errors import NotFound
from iris_fed.rpc.gen.job import job_pb2
from tests.federation.world import (
    KILLED,
    RUNNING,
    SUCCEEDED,
    WORKER_FAILED,
    Cluster,
    Pair,
    cpu_job,
    gpu_job,
    in_contact,
    job_of,
    pinned,
    seen,
    started,
    until,
)


async def gone(pair: Pair) -> tuple[str, str, str]:
    """A job that runs on the lab, which is then gone for good, and one submitted afterwards; the attempt's uid."""
    running = await pair.hub.client.submit(gpu_job("running"))
    (uid,) = await started(pair.lab)
    await seen(pair.hub, running, RUNNING)
    pair.wire.cut()
    await in_contact(pair.hub, reachable=False)
    waiting = await pair.hub.client.submit(gpu_job("waiting"))
    return running, waiting, uid


async def test_its_unfinished_jobs_end_as_lost_and_say_by_whose_word(pair: Pair) -> None:
    running, waiting, _ = await gone(pair)
    assert (await pair.hub.client.forget_peer("lab")).jobs_lost == 2
    lost = await job_of(pair.hub, running)
    assert lost.state == WORKER_FAILED
    assert "lost: root gave up lab" in lost.error
    never_sent = await job_of(pair.hub, waiting)
    assert never_sent.state == WORKER_FAILED
    assert "before this job was sent there" in never_sent.error
    assert (await pair.hub.client.forget_peer("lab")).jobs_lost == 0


async def test_a_peer_that_comes_back_nevertheless_takes_it_back_at_once(pair: Pair) -> None:
    running, waiting, uid = await gone(pair)
    await pair.hub.client.forget_peer("lab")
    pair.wire.mend()
    # Nothing changes there: it is asked for everything.
    back = await seen(pair.hub, running, RUNNING, status="SYNCED")
    assert [task.state for task in back.tasks] == [job_pb2.TASK_STATE_RUNNING]
    pair.lab.engine.finish(uid)
    await seen(pair.hub, running, SUCCEEDED)
    assert (await job_of(pair.hub, waiting)).state == WORKER_FAILED
    assert len(pair.lab.engine.launched) == 1


async def test_a_cancel_that_the_lost_peer_had_not_heard_is_told_when_it_is_back(pair: Pair) -> None:
    running, _, uid = await gone(pair)
    await pair.hub.client.cancel(running)
    await pair.hub.client.forget_peer("lab")
    pair.wire.mend()
    job = await seen(pair.hub, running, KILLED)
    assert job.error == "cancelled by hub"
    assert pair.lab.engine.kills == [uid]


async def test_what_took_the_name_of_a_job_given_up_ends_that_one_when_the_peer_is_back(pair: Pair) -> None:
    running, _, uid = await gone(pair)
    await pair.hub.client.forget_peer("lab")
    await pair.hub.client.submit(pinned(cpu_job("running"), backend="cpu"))
    pair.wire.mend()

    async def killed() -> bool:
        return pair.lab.engine.kills == [uid]

    await until(killed)
    assert (await job_of(pair.hub, running)).cluster == ""


async def test_children_that_outlived_their_root_end_with_it(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    token = pair.lab.engine.launched[0].env["IRIS_TASK_TOKEN"]
    await Client(pair.lab.url, token=token, transport=pair.lab.transport()).submit(gpu_job("below"))
    await seen(pair.hub, f"{job_id}/below", RUNNING)
    pair.lab.engine.holds_kills = True
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    assert (await job_of(pair.hub, f"{job_id}/below")).state == RUNNING
    pair.wire.cut()
    await pair.hub.client.forget_peer("lab")
    child = await seen(pair.hub, f"{job_id}/below", KILLED)
    assert child.error == f"its parent {job_id} ended SUCCEEDED"
    assert [attempt.state for task in child.tasks for attempt in task.attempts] == [job_pb2.TASK_STATE_KILLED]


async def test_jobs_at_a_peer_that_is_not_declared_any_more_can_be_given_up_too(pair: Pair) -> None:
    running, _, _ = await gone(pair)
    await undeclare(pair.hub)
    assert (await pair.hub.client.forget_peer("lab")).jobs_lost == 2
    assert (await job_of(pair.hub, running)).state == WORKER_FAILED
    with pytest.raises(NotFound, match="no peer 'lab'"):
        await pair.hub.client.forget_peer("lab")


async def undeclare(hub: Cluster) -> None:
    await hub.stop()
    hub.peers = ()
    await hub.start()
