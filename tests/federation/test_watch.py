"""A page waits for news of everything that it shows, and for nothing that its reader may not see."""

import asyncio
from pathlib import Path

import pytest
from connectrpc.errors import ConnectError

from iris_fed.client import Client
from iris_fed.rpc.gen.irisfed import cluster_pb2
from tests.federation.callers import person, signing, task_token, token_of, with_headers
from tests.federation.world import (
    RUNNING,
    SUCCEEDED,
    WITHIN_S,
    Cluster,
    JobState,
    Pair,
    World,
    cpu_job,
    gpu_job,
    job_of,
    started,
    until,
)

Watched = cluster_pb2.WatchChangesResponse


class Page:
    """Asks again from where it was told to."""

    def __init__(self, cluster: Cluster, token: str = "", job_id: str = "") -> None:
        self._channel = with_headers(cluster, {"authorization": f"Bearer {token or cluster.running.admin_token}"})
        self._job_id = job_id
        self.position = ""

    async def look(self, wait_ms: int = 20_000) -> Watched:
        request = cluster_pb2.WatchChangesRequest(position=self.position, job_id=self._job_id, wait_ms=wait_ms)
        answer = await self._channel.cluster.watch_changes(request)
        self.position = answer.position
        return answer

    async def until(self, *, root: str = "", peers: bool = False, backends: bool = False) -> Watched:
        async def heard() -> Watched | None:
            answer = await self.look()
            named = not root or root in answer.root_job_ids or answer.all_jobs
            return answer if named and answer.peers >= peers and answer.backends >= backends else None

        found = await until(heard)
        assert found is not None
        return found


async def opened(page: Page) -> Page:
    first = await page.look()
    assert first == Watched(position=first.position)
    # What was under way when it was opened is told once more.
    while (answer := await page.look(wait_ms=250)) != Watched(position=page.position):
        assert answer.position
    return page


async def test_a_page_that_looks_only_when_it_is_told_to_shows_a_job_from_its_submission_to_its_end(pair: Pair) -> None:
    page = await opened(Page(pair.hub))
    job_id = await pair.hub.client.submit(cpu_job("prepare"))
    await shown(page, pair.hub, job_id, RUNNING)
    (uid,) = await started(pair.hub)
    pair.hub.engine.finish(uid)
    await shown(page, pair.hub, job_id, SUCCEEDED)


async def test_a_burst_is_one_answer(pair: Pair) -> None:
    page = await opened(Page(pair.hub))
    held = asyncio.create_task(page.look())
    names = [await pair.hub.client.submit(cpu_job(f"p{number}")) for number in range(3)]
    assert set((await held).root_job_ids) == set(names)


async def test_the_page_of_a_federated_job_follows_what_the_peer_tells(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    page = await opened(Page(pair.hub, job_id=job_id))
    (uid,) = await started(pair.lab)
    pair.lab.engine.finish(uid)
    await shown(page, pair.hub, job_id, SUCCEEDED)


async def test_a_peer_that_is_lost_and_found_is_news_and_its_heartbeats_are_not(pair: Pair) -> None:
    page = await opened(Page(pair.hub))
    for shown in (False, True):
        held = asyncio.create_task(page.until(peers=True))
        await _held(held)
        pair.wire.cut() if not shown else pair.wire.mend()
        await held
        assert (await pair.hub.client.peers()).peers[0].reachable == shown


async def test_capacity_taken_by_a_task_is_news_of_the_backends(pair: Pair) -> None:
    page = await opened(Page(pair.hub))
    await pair.hub.client.submit(cpu_job("prepare"))
    await page.until(backends=True)


async def test_a_position_from_before_a_restart_means_to_look_at_everything(pair: Pair) -> None:
    page = await opened(Page(pair.hub))
    await pair.hub.restart()
    page = _again(page, pair.hub)
    answer = await page.look()
    assert answer.all_jobs
    assert answer.peers
    assert answer.backends


async def test_a_stopping_controller_answers_who_waits(pair: Pair) -> None:
    page = await opened(Page(pair.lab))
    held = asyncio.create_task(page.look())
    await _held(held)
    await pair.lab.stop()
    assert not (await held).root_job_ids


async def test_who_sees_only_its_own_jobs_hears_of_no_others(world: World, tmp_path: Path) -> None:
    hub = await world.add("hub", auth=signing(world, "hub", tmp_path) | {"users_see_all": False})
    alice, bob = Page(hub, await token_of(hub, "alice")), Page(hub, await token_of(hub, "bob"))
    both = await opened(alice), await opened(bob)
    theirs = [await client_of(hub, user) for user in ("alice", "bob")]
    assert both == (alice, bob)
    heard = [set((await page.until(root=job_id)).root_job_ids) for page, job_id in zip(both, theirs, strict=True)]
    assert heard == [{theirs[0]}, {theirs[1]}]
    with pytest.raises(ConnectError, match="there is no job"):
        await Page(hub, await token_of(hub, "bob"), theirs[0]).look()


async def test_a_task_hears_of_its_own_tree_alone(world: World) -> None:
    hub = await world.add("hub")
    token = await task_token(hub)
    own = (await hub.rows("SELECT job_id FROM jobs"))[0]["job_id"]
    page = await opened(Page(hub, token))
    other = await hub.client.submit(cpu_job("other"))
    await hub.client.cancel(other)
    await hub.client.cancel(own)
    answer = await page.until(root=own)
    assert other not in answer.root_job_ids


async def test_lists_that_are_shared_show_each_caller_its_own_writes_at_once(world: World, tmp_path: Path) -> None:
    hub = await world.add("hub", auth=signing(world, "hub", tmp_path) | {"users_see_all": False})
    alice, bob = await person(hub, "alice"), await person(hub, "bob")

    async def shown(client: Client) -> set[str]:
        return {job.job_id async for job in client.list_jobs()}

    for number in range(10):
        mine = await alice.submit(cpu_job(f"job-{number}"))
        theirs = await bob.submit(cpu_job(f"job-{number}"))
        seen = await asyncio.gather(*(shown(client) for client in (alice, bob, alice, hub.client)))
        assert [mine in one for one in seen] == [True, False, True, True]
        assert [theirs in one for one in seen] == [False, True, False, True]


async def test_many_tabs_of_one_person_take_no_place_of_its_other_calls(world: World) -> None:
    hub = await world.add("hub", limits={"calls_per_caller": 4})
    pages = [await opened(Page(hub)) for _ in range(5)]
    held = [asyncio.create_task(page.look()) for page in pages]
    for one in held:
        await _held(one)
    job_id = await hub.client.submit(cpu_job())
    assert [list((await one).root_job_ids) for one in held] == [[job_id]] * 5


async def shown(page: Page, cluster: Cluster, job_id: str, state: JobState) -> None:
    """Until the page shows the job so; it looks at the job after each answer that names it, and never else."""
    async with asyncio.timeout(WITHIN_S):
        while (await job_of(cluster, job_id)).state != state:
            await page.until(root=job_id)


async def client_of(cluster: Cluster, user: str) -> str:
    """Submits a job as this user."""
    return await (await person(cluster, user)).submit(cpu_job("mine"))


def _again(page: Page, cluster: Cluster) -> Page:
    later = Page(cluster)
    later.position = page.position
    return later


async def _held(call: "asyncio.Task[Watched]") -> None:
    """It is under way and has no answer yet."""
    for _ in range(20):
        await asyncio.sleep(0)
    assert not call.done()
