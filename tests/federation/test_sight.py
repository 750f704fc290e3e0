"""Whose jobs a caller sees, and how much of them: everybody's or one's own, with or without what they do."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from iris_fed.client import Client, command_job
from iris_fed.errors import NotFound, PermissionDenied
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2
from tests.federation.callers import person, signing
from tests.federation.world import RUNNING, Cluster, World, gpu_job, handoff, seen

SECRET = "the-word"
BUILDING = job_pb2.JOB_STATE_BUILDING


async def lab_of(world: World, tmp_path: Path, **auth: Any) -> Cluster:
    settings = signing(world, "lab", tmp_path) | auth
    return await world.add("lab", h100=8, trusts={"hub": ["*"]}, auth=settings)


def telling_job() -> Controller.LaunchJobRequest:
    """Holds a word in everything that says what it does."""
    request = command_job(["python", SECRET], name="train", env={SECRET: SECRET})
    request.environment.setup_scripts.append(SECRET)
    request.entrypoint.setup_commands.append(SECRET)
    request.submit_argv.extend(["iris-fed", SECRET])
    request.entrypoint.workdir_files[SECRET] = SECRET.encode()
    return request


def looks(client: Client, job_id: str) -> list[Callable[[], Awaitable[object]]]:
    """Every way of learning something of one job."""
    return [
        lambda: client.job(job_id),
        lambda: client.tasks(job_id),
        lambda: client.task(f"{job_id}/0"),
        lambda: client.events(job_id),
        lambda: anext(client.logs(job_id)),
        lambda: client.list_files(job_id),
        lambda: anext(client.read_file(job_id, "x")),
        lambda: client.exec(job_id, ["true"]),
        lambda: client.cancel(job_id),
    ]


async def test_where_users_see_only_their_own_nothing_of_anothers_job_exists_for_them(
    world: World, tmp_path: Path
) -> None:
    lab = await lab_of(world, tmp_path, users_see_all=False)
    hub = await world.add("hub", start=False)
    alice, bob, eve = await person(lab, "alice"), await person(lab, "bob"), await person(lab, "eve", "dashboard")
    hers = await alice.submit(gpu_job())
    received = "/bob/hub.train"
    cluster = Client(lab.url, token=hub.token_for("lab"), transport=lab.transport())
    request = handoff(received, "hub")
    request.federation.owner_principal = "bob"
    await cluster.submit(request)
    await seen(lab, hers, RUNNING)
    for job_id in (hers, received):
        for look in looks(bob, job_id):
            with pytest.raises(NotFound, match=r"there is no (job|task)"):
                await look()
        for look in looks(eve, job_id)[:4]:
            with pytest.raises(NotFound, match=r"there is no (job|task)"):
                await look()
    for client in (bob, eve):
        assert await client.job_states([hers, received]) == {}
        page = await client.jobs_page(Controller.JobQuery())
        assert (list(page.jobs), page.total_count) == ([], 0)
        children = Controller.JobQuery(scope=Controller.JOB_QUERY_SCOPE_CHILDREN, parent_job_id=hers)
        assert list((await client.jobs_page(children)).jobs) == []
        assert list((await client.users()).users) == []
        backends = (await client.backends()).backends
        assert {(one.pending_task_count, one.running_task_count) for one in backends} == {(0, 0)}
    await seen(lab, hers, RUNNING)


async def test_where_users_see_only_their_own_they_see_all_of_that(world: World, tmp_path: Path) -> None:
    lab = await lab_of(world, tmp_path, users_see_all=False)
    alice, bob = await person(lab, "alice"), await person(lab, "bob")
    await bob.submit(gpu_job("other"))
    hers = await alice.submit(gpu_job(replicas=2))
    await seen(lab, hers, RUNNING)
    assert (await alice.job(hers)).job.task_count == 2
    assert await alice.job_states([hers]) == {hers: RUNNING}
    page = await alice.jobs_page(Controller.JobQuery())
    assert ([job.job_id for job in page.jobs], page.total_count) == ([hers], 1)
    assert [(user.user, sum(user.task_state_counts.values())) for user in (await alice.users()).users] == [("alice", 2)]
    assert [one.running_task_count for one in (await alice.backends()).backends] == [2]
    assert [one.running_task_count for one in (await lab.client.backends()).backends] == [3]
    assert len((await alice.events(hers)).events) > 0
    await alice.cancel(hers)


async def test_a_parents_user_sees_only_its_own_jobs_at_a_peer(world: World, tmp_path: Path) -> None:
    settings = signing(world, "hub", tmp_path) | {"users_see_all": False}
    pair = await world.pair(hub={"auth": settings})
    alice, bob = await person(pair.hub, "alice"), await person(pair.hub, "bob")
    await seen(pair.hub, await alice.submit(gpu_job()), RUNNING)
    assert [peer.active_federated_jobs for peer in (await alice.peers()).peers] == [1]
    assert [peer.active_federated_jobs for peer in (await bob.peers()).peers] == [0]
    with pytest.raises(NotFound):
        await bob.job("/alice/train")


async def test_a_dashboard_sees_that_a_job_runs_and_not_what_it_does(world: World, tmp_path: Path) -> None:
    lab = await lab_of(world, tmp_path)
    alice, eve = await person(lab, "alice"), await person(lab, "eve", "dashboard")
    job_id = await alice.submit(telling_job())
    await seen(lab, job_id, BUILDING)
    shown = await eve.job(job_id)
    assert (shown.job.state, shown.request.name, shown.request.replicas) == (BUILDING, job_id, 1)
    for answer in (
        shown,
        await eve.tasks(job_id),
        await eve.events(job_id),
        await eve.jobs_page(Controller.JobQuery()),
    ):
        assert SECRET not in str(answer)
    assert SECRET in str((await alice.job(job_id)).request)
    with pytest.raises(PermissionDenied, match="may not call ReadLogs"):
        await anext(eve.logs(job_id))


async def test_a_dashboard_that_reads_content_sees_what_a_user_sees_and_no_files(world: World, tmp_path: Path) -> None:
    lab = await lab_of(world, tmp_path, dashboard_reads_content=True)
    alice, bob, eve = await person(lab, "alice"), await person(lab, "bob"), await person(lab, "eve", "dashboard")
    job_id = await alice.submit(telling_job())
    await seen(lab, job_id, BUILDING)
    assert (await eve.job(job_id)).request == (await bob.job(job_id)).request
    assert [answer async for answer in eve.logs(job_id)] == [answer async for answer in bob.logs(job_id)]
    for client in (bob, eve):
        with pytest.raises(PermissionDenied):
            await client.list_files(job_id)
