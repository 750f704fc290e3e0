"""Secrets as files: they reach the engine that runs the task, here or on a peer, and no answer."""

from pathlib import Path

import pytest

from iris_fed.client import Client, command_job
from iris_fed.errors import InvalidArgument
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.wire.delivery import MASK
from tests.federation.test_children import client_of, finish
from tests.federation.world import RUNNING, SUCCEEDED, Cluster, World, gpu_job, seen, started, until

SECRET = "hunter2-which-nobody-may-see"


def job(name: str = "train") -> Controller.LaunchJobRequest:
    hidden = command_job(["train"], secrets={"TOKEN": SECRET}, secret_files={"key.pem": f"{SECRET}\n"})
    return gpu_job(name, environment=hidden.environment)


async def places(world: World, where: str) -> tuple[Cluster, Cluster]:
    """Where a job is submitted, and where it runs."""
    if where == "on a peer":
        pair = await world.pair()
        return pair.hub, pair.lab
    solo = await world.add("solo", h100=8)
    return solo, solo


def holding_it(directory: Path) -> list[str]:
    return [path.name for path in directory.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


async def all_answers(client: Client, job_id: str) -> str:
    answers = [await client.job(job_id), await client.tasks(job_id), await client.events(job_id)]
    return "".join(map(str, [*answers, *[one async for one in client.list_jobs()]]))


@pytest.mark.parametrize("where", ["here", "on a peer"])
async def test_a_file_and_a_variable_reach_the_task_and_no_answer_shows_them(world: World, where: str) -> None:
    user, place = await places(world, where)
    job_id = await user.client.submit(job())
    (uid,) = await started(place)
    await seen(user, job_id, RUNNING)
    (request,) = place.engine.launched
    assert request.secret_files == {"key.pem": f"{SECRET}\n"}
    assert (request.env["TOKEN"], [name for name in request.env if "key" in name]) == (SECRET, [])
    shown = (await user.client.job(job_id)).request.environment.secrets
    assert dict(shown) == {"TOKEN": MASK, "file:key.pem": MASK}
    remote_id = request.env["IRIS_JOB_ID"]
    for cluster, id in ((user, job_id), (place, remote_id)):
        assert SECRET not in await all_answers(cluster.client, id)
    place.engine.finish(uid)
    await seen(user, job_id, SUCCEEDED)
    for cluster in {user.name: user, place.name: place}.values():
        await cluster.stop()
        assert holding_it(cluster.state_dir) == []


@pytest.mark.parametrize("where", ["here", "on a peer"])
async def test_a_child_inherits_its_parents_files_and_may_replace_them(world: World, where: str) -> None:
    user, place = await places(world, where)
    job_id = await user.client.submit(job())
    (uid,) = await started(place)
    await seen(place, place.engine.launched[0].env["IRIS_JOB_ID"], RUNNING)
    child = command_job(["eval"], name="eval", secret_files={"own": "its own", "key.pem": "another"})
    child_id = await client_of(place, uid).submit(child)
    await client_of(place, uid).submit(command_job(["eval"], name="plain"))

    async def both() -> bool:
        return len(place.engine.launched) == 3

    await until(both)
    by_job = {request.env["IRIS_JOB_ID"]: request for request in place.engine.launched}
    assert by_job[child_id].secret_files == {"own": "its own", "key.pem": "another"}
    plain = by_job[child_id.replace("/eval", "/plain")]
    assert (plain.secret_files, plain.env["TOKEN"]) == ({"key.pem": f"{SECRET}\n"}, SECRET)
    await finish(place, child_id)
    await seen(user, f"{job_id}/eval", SUCCEEDED)


@pytest.mark.parametrize("name", ["../key", "a/b", "", "."])
async def test_a_name_that_leads_elsewhere_is_refused(world: World, name: str) -> None:
    solo = await world.add("solo", h100=8)
    hidden = command_job(["train"], secret_files={name: SECRET})
    with pytest.raises(InvalidArgument, match=r"environment\.secrets: .* is no name of a secret file") as refused:
        await solo.client.submit(gpu_job(environment=hidden.environment))
    assert SECRET not in refused.value.message
