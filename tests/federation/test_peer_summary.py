"""What ListPeers tells an operator of a peer."""

from pathlib import Path

from iris_fed.cli.offers import peer_row
from iris_fed.clock import SystemClock
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from tests.federation.callers import person, signing
from tests.federation.world import FAILED, SUCCEEDED, Cluster, Pair, World, gpu_job, in_contact, seen, started, until


async def summary(cluster: Cluster) -> Controller.PeerSummary:
    (peer,) = (await cluster.client.peers()).peers
    return peer


async def test_a_peer_whose_news_were_all_read_tells_when_that_was_also_after_a_restart(pair: Pair) -> None:
    before = SystemClock().now_ms()
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    synced = (await summary(pair.hub)).synced_ms
    assert before <= synced <= SystemClock().now_ms()
    await pair.hub.stop()
    pair.wire.cut()
    await pair.hub.start()

    async def remembered() -> bool:
        return (await summary(pair.hub)).synced_ms >= synced

    await until(remembered)


async def test_a_peer_that_was_never_heard_of_was_never_synced(world: World) -> None:
    hub = await world.add("hub", peers=("lab",))
    peer = await summary(hub)
    assert not peer.HasField("synced_ms")
    assert not peer.HasField("last_refusal")


async def test_jobs_that_were_not_taken_yet_are_counted(pair: Pair) -> None:
    assert (await summary(pair.hub)).waiting_deliveries == 0
    pair.wire.lose_requests("LaunchJob")
    await pair.hub.client.submit(gpu_job("one"))
    await pair.hub.client.submit(gpu_job("two"))
    peer = await summary(pair.hub)
    assert (peer.waiting_deliveries, peer.active_federated_jobs) == (2, 2)
    assert "2 (2 waiting)" in peer_row(peer, SystemClock().now_ms())
    pair.wire.mend()

    async def taken() -> bool:
        return (await summary(pair.hub)).waiting_deliveries == 0

    await until(taken)


async def test_the_last_refusal_is_told_with_the_job_and_the_peers_words(world: World) -> None:
    pair = await world.pair(lab={"trusts": {"hub": ["nobody@x.org"]}})
    job_id = await pair.hub.client.submit(gpu_job("refused"))
    await seen(pair.hub, job_id, FAILED)
    peer = await summary(pair.hub)
    assert peer.last_refusal.startswith(f"{job_id}: ")
    assert peer.last_refusal_ms > 0
    assert f"ago it refused {job_id}" in peer_row(peer, SystemClock().now_ms())[-1]


async def test_who_sees_only_its_own_jobs_learns_nothing_of_those_of_others(world: World, tmp_path: Path) -> None:
    await world.add("lab", h100=8, trusts={"hub": ["nobody@x.org"]})
    auth = signing(world, "hub", tmp_path) | {"users_see_all": False}
    hub = await world.add("hub", peers=("lab",), auth=auth)
    await in_contact(hub)
    await seen(hub, await hub.client.submit(gpu_job("secret")), FAILED)
    (peer,) = (await (await person(hub, "bob")).peers()).peers
    assert not peer.HasField("last_refusal")
    assert not peer.HasField("waiting_deliveries")
