"""Peers that speak the protocol without our extensions: an Iris controller, as parent or as peer."""

import pytest

from iris_fed.client import Client
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller as Wired
from tests.federation.plain import PlainWire
from tests.federation.world import (
    FAILED,
    KILLED,
    RUNNING,
    SUCCEEDED,
    WORKER_FAILED,
    Cluster,
    Pair,
    World,
    as_peer,
    gpu_job,
    handoff,
    in_contact,
    job_of,
    pinned,
    seen,
    started,
    until,
)

POLLS = {"poll_interval_s": 0.05}


@pytest.fixture
async def plain(world: World) -> Pair:
    """A hub whose lab knows nothing of our extensions."""
    wire = PlainWire(lambda: world.clusters["lab"].served if "lab" in world.clusters else None)
    world.use_wire("hub", "lab", wire)
    return await world.pair(hub={"federation": POLLS})


async def deliveries(wire: PlainWire) -> list[Wired.LaunchJobRequest]:
    return [m for method, m in wire.requests if method == "LaunchJob" and isinstance(m, Wired.LaunchJobRequest)]


async def test_a_job_is_handed_over_followed_and_ended_by_polling(plain: Pair) -> None:
    job_id = await plain.hub.client.submit(pinned(gpu_job(replicas=2), cluster="lab"))
    first, second = await started(plain.lab, 2)
    await seen(plain.hub, job_id, RUNNING, status="SYNCED")
    plain.lab.engine.finish(first)
    plain.lab.engine.finish(second, exit_code=4)
    job = await seen(plain.hub, job_id, FAILED)
    assert job.exit_code == 4
    assert isinstance(plain.wire, PlainWire)
    (sent,) = await deliveries(plain.wire)
    assert [c.key for c in sent.constraints if c.key == "cluster"] == []
    assert not sent.federation.HasField("database_id")


async def test_a_cancel_reaches_the_job(plain: Pair) -> None:
    job_id = await plain.hub.client.submit(gpu_job())
    await started(plain.lab)
    await seen(plain.hub, job_id, RUNNING)
    await plain.hub.client.cancel(job_id)
    job = await seen(plain.hub, job_id, KILLED)
    assert "cancelled by" in job.error


async def test_a_lost_answer_to_a_delivery_starts_nothing_twice(plain: Pair) -> None:
    plain.wire.lose_answers("LaunchJob", 1)
    job_id = await plain.hub.client.submit(gpu_job())
    (uid,) = await started(plain.lab)
    await seen(plain.hub, job_id, RUNNING)
    plain.lab.engine.finish(uid)
    await seen(plain.hub, job_id, SUCCEEDED)
    assert len(plain.lab.engine.launched) == 1


async def test_a_cancel_that_may_have_overtaken_its_delivery_is_told_until_none_can_arrive(
    plain: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iris_fed.decide.handoff.TOKEN_LIFE_MS", 2_000)
    plain.wire.hang("LaunchJob", 1)
    job_id = await plain.hub.client.submit(gpu_job())
    await plain.hub.client.cancel(job_id)

    async def told_twice() -> bool:
        return plain.wire.arrived.count("TerminateJob") >= 2

    await until(told_twice)
    job = (await plain.hub.client.job(job_id)).job
    assert job.state not in (KILLED, FAILED)
    (late,) = plain.wire.held
    await plain.wire.deliver_late(late)
    job = await seen(plain.hub, job_id, KILLED)
    assert "cancelled by" in job.error

    async def none_runs() -> bool:
        return all(one.end is not None for one in plain.lab.engine.attempts.values())

    await until(none_runs)


async def test_after_an_interruption_everything_is_asked_for_since_only_that_shows_a_replaced_database(
    plain: Pair,
) -> None:
    job_id = await plain.hub.client.submit(gpu_job())
    await started(plain.lab)
    await seen(plain.hub, job_id, RUNNING)
    await plain.lab.stop()
    plain.lab.wipe()
    plain.lab.engine.attempts.clear()
    await plain.lab.start()
    await seen(plain.hub, job_id, RUNNING, reason="does not show this job any more")


async def test_the_next_submission_of_a_name_is_another_job(plain: Pair) -> None:
    job_id = await plain.hub.client.submit(gpu_job())
    (uid,) = await started(plain.lab)
    plain.lab.engine.finish(uid)
    await seen(plain.hub, job_id, SUCCEEDED)
    await plain.hub.client.submit(gpu_job())
    _, second = await started(plain.lab, 2)
    await seen(plain.hub, job_id, RUNNING)
    plain.lab.engine.finish(second, exit_code=9)
    job = await seen(plain.hub, job_id, FAILED)
    assert job.exit_code == 9


async def test_a_job_given_up_with_its_peer_is_taken_back_when_the_peer_shows_its_name_again(plain: Pair) -> None:
    job_id = await plain.hub.client.submit(gpu_job())
    (uid,) = await started(plain.lab)
    await seen(plain.hub, job_id, RUNNING)
    plain.wire.cut()
    await in_contact(plain.hub, reachable=False)
    assert (await plain.hub.client.forget_peer("lab")).jobs_lost == 1
    assert (await job_of(plain.hub, job_id)).state == WORKER_FAILED
    plain.wire.mend()
    await seen(plain.hub, job_id, RUNNING, status="SYNCED")
    plain.lab.engine.finish(uid)
    await seen(plain.hub, job_id, SUCCEEDED)
    assert len(plain.lab.engine.launched) == 1


async def test_a_child_that_still_stops_when_its_root_has_ended_is_followed_to_its_end(plain: Pair) -> None:
    job_id = await plain.hub.client.submit(gpu_job())
    (uid,) = await started(plain.lab)
    token = plain.lab.engine.launched[0].env["IRIS_TASK_TOKEN"]
    await Client(plain.lab.url, token=token, transport=plain.lab.transport()).submit(gpu_job("below"))
    _, below = await started(plain.lab, 2)
    await seen(plain.hub, f"{job_id}/below", RUNNING)
    plain.lab.engine.holds_kills = True
    plain.lab.engine.finish(uid)
    await seen(plain.hub, job_id, SUCCEEDED)
    assert (await job_of(plain.hub, f"{job_id}/below")).state == RUNNING
    plain.lab.engine.finish(below, exit_code=3)
    child = await seen(plain.hub, f"{job_id}/below", KILLED)
    assert [task.exit_code for task in child.tasks] == [3]


async def test_a_parent_without_extensions_is_told_one_row_per_name_and_everything_at_once(world: World) -> None:
    lab = await world.add("lab", h100=8, trusts={"hub": ["*"]})
    hub = await world.add("hub", start=False)
    parent = PlainParent(lab, hub)
    await parent.hand_over("/alice/hub.train", "n.1")
    (uid,) = await started(lab)
    lab.engine.finish(uid)
    await seen(lab, "/alice/hub.train", SUCCEEDED)
    await parent.hand_over("/alice/hub.train", "n.2")
    await parent.cancel("/alice/hub.other", nonce="n.3")
    answer = await parent.sync("")
    assert answer.cursor_stale
    assert [(row.job_id, row.tombstone) for row in answer.deltas] == [("/alice/hub.train", False)]
    assert (await parent.sync("17")).cursor_stale


class PlainParent:
    """Speaks as an Iris controller does; its nonce in a cancel only makes a fence to be left out."""

    def __init__(self, lab: Cluster, hub: Cluster) -> None:
        self._calls = as_peer(hub, lab)

    async def hand_over(self, name: str, nonce: str) -> None:
        await self._calls.controller.launch_job(handoff(name, "hub", nonce))

    async def cancel(self, job_id: str, nonce: str) -> None:
        request = Wired.TerminateJobRequest(job_id=job_id, handoff_nonce=nonce)
        await self._calls.controller.terminate_job(request)

    async def sync(self, cursor: str) -> Wired.FederationSyncResponse:
        return await self._calls.controller.federation_sync(
            Wired.FederationSyncRequest(requester_id="hub", cursor=cursor)
        )
