"""Federation does nothing where there are no peers, and a peer that hangs costs only itself."""

import asyncio
import time

from tests.federation.world import (
    PENDING,
    RUNNING,
    SUCCEEDED,
    World,
    cpu_job,
    gpu_job,
    in_contact,
    pinned,
    seen,
    started,
    until,
)

TABLES = ("federated_jobs", "federation_changelog", "federation_peers")


async def test_without_peers_and_requesters_federation_is_inert(world: World) -> None:
    other = await world.add("other", h100=8)
    hub = await world.add("hub")
    job_id = await hub.client.submit(cpu_job())
    (uid,) = await started(hub)
    hub.engine.finish(uid)
    await seen(hub, job_id, SUCCEEDED)
    cancelled = await hub.client.submit(cpu_job("cancelled"))
    await hub.client.cancel(cancelled)
    for cluster in (hub, other):
        for table in TABLES:
            assert await cluster.rows(f"SELECT * FROM {table}") == []
    names = [task.get_name() for task in asyncio.all_tasks()] + [repr(task.get_coro()) for task in asyncio.all_tasks()]
    assert not [name for name in names if any(word in name for word in ("heartbeat", "PeerLink", "Outbox", "sync "))]
    assert world.connections == 0
    assert list((await hub.client.peers()).peers) == []


async def test_a_peer_that_never_answers_delays_no_submit_to_others_and_costs_its_own_one_deadline(
    world: World,
) -> None:
    await world.add("lab", h100=8, trusts={"hub": ["*"]})
    await world.add("aaa-hung", h100=8, trusts={"hub": ["*"]})
    hub = await world.add("hub", peers=("aaa-hung", "lab"), federation={"call_timeout_s": 1.0})
    await in_contact(hub)
    hung = world.wire("hub", "aaa-hung")
    hung.mend()
    hung.hang()

    async def timed(*names: str, cluster: str = "") -> list[float]:
        times = []
        for name in names:
            began = time.monotonic()
            request = pinned(gpu_job(name), cluster=cluster) if cluster else cpu_job(name)
            await hub.client.submit(request)
            times.append(time.monotonic() - began)
        return times

    to_hung, to_lab, here = await asyncio.gather(
        timed("stuck", cluster="aaa-hung"), timed("one", "two", "three", cluster="lab"), timed("four", "five", "six")
    )
    assert max(to_lab + here) < 0.5
    assert to_hung[0] < 1.0 + 0.5
    await started(world.clusters["lab"], 3)
    await started(hub, 3)
    user = hub.engine.launched[0].task_id.split("/")[1]
    await seen(hub, f"/{user}/stuck", PENDING, reason="aaa-hung")
    await in_contact_with_one(world)
    # Once it is known to hang, a submit does not wait for it at all.
    (again,) = await timed("again", cluster="aaa-hung")
    assert again < 0.5
    hung.mend()
    await seen(hub, f"/{user}/stuck", RUNNING)
    await started(world.clusters["aaa-hung"], 2)


async def in_contact_with_one(world: World) -> None:
    async def one() -> bool:
        federation = world.clusters["hub"].running.federation
        return not federation.link("aaa-hung").reachable and federation.link("lab").reachable

    await until(one)


async def test_a_lost_peer_is_shown_with_its_last_backends_and_the_time_of_the_first_loss(world: World) -> None:
    pair = await world.pair()
    (there,) = (await pair.hub.client.peers()).peers
    assert (there.reachable, [backend.name for backend in there.backends]) == (True, ["lab-node"])
    pair.wire.cut()
    await in_contact(pair.hub, reachable=False)
    (lost,) = (await pair.hub.client.peers()).peers
    heartbeats = pair.wire.seen.count("ListBackends")

    async def two_more() -> bool:
        return pair.wire.seen.count("ListBackends") >= heartbeats + 2

    await until(two_more)
    (later,) = (await pair.hub.client.peers()).peers
    assert [backend.name for backend in later.backends] == ["lab-node"]
    assert later.unreachable_since_ms == lost.unreachable_since_ms
    assert there.last_contact_ms <= later.last_contact_ms <= later.unreachable_since_ms


async def test_a_peer_that_answers_nonsense_is_shown_as_such_and_is_asked_again(world: World) -> None:
    pair = await world.pair()
    pair.wire.mend()
    pair.wire.answer("ListBackends", 200, "application/proto", b"\xff\xff\xff")
    pair.wire.answer("FederationSync", 200, "application/proto", b"\xff\xff\xff")
    await in_contact(pair.hub, reachable=False)
    (peer,) = (await pair.hub.client.peers()).peers
    assert not peer.reachable
    pair.wire.mend()
    await in_contact(pair.hub)
    await seen(pair.hub, await pair.hub.client.submit(gpu_job()), RUNNING)


async def test_a_peer_that_stops_is_not_asked_in_a_tight_loop(world: World) -> None:
    pair = await world.pair()
    pair.lab.running.feed.stop()
    before = pair.wire.seen.count("FederationSync")
    heartbeats = pair.wire.seen.count("ListBackends")

    async def three_heartbeats() -> bool:
        return pair.wire.seen.count("ListBackends") >= heartbeats + 3

    await until(three_heartbeats)
    assert pair.wire.seen.count("FederationSync") - before <= 6
