"""What a name gives nobody: other people's jobs and workspaces, whatever they are called."""

import hashlib
import io
import zipfile
from pathlib import Path

import httpx
import pytest
from connectrpc.code import Code
from connectrpc.errors import ConnectError

from iris_fed.errors import InvalidArgument, IrisFedError
from iris_fed.federation import inbound
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from tests.federation.callers import bearer, person, signing, task_token
from tests.federation.world import RUNNING, Cluster, Pair, World, as_peer, cpu_job, gpu_job, handoff, seen, started


def _workspace() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(zipfile.ZipInfo("private.py"), b"secret = 1\n")
    return packed.getvalue()


WORKSPACE = _workspace()
WORKSPACE_ID = hashlib.sha256(WORKSPACE).hexdigest()


@pytest.fixture
async def lab(world: World, tmp_path: Path) -> Cluster:
    hub = await world.add("hub", start=False)
    return await world.add("lab", h100=8, trusts={hub.name: ["*"]}, auth=signing(world, "lab", tmp_path))


async def test_nobody_submits_below_a_job_that_another_cluster_handed_over(world: World, lab: Cluster) -> None:
    calls = as_peer(world.clusters["hub"], lab)
    request = handoff("/alice/hub.train", "hub")
    request.environment.secrets["WANDB_KEY"] = "hers"
    answer = await calls.controller.launch_job(request)
    await started(lab)
    for user in ("alice", "bob"):
        caller = await person(lab, user)
        name = f"{answer.job_id}/child"
        with pytest.raises(IrisFedError, match=r"there is no job|may only submit under"):
            await caller.submit(cpu_job(name))
    assert [request.task_id for request in lab.engine.launched] == [f"{answer.job_id}/0"]


async def test_a_person_submits_below_own_jobs_only(lab: Cluster) -> None:
    alice = await person(lab, "alice")
    root = await alice.submit(cpu_job("mine"))
    await seen(lab, root, RUNNING)
    child = await alice.submit(cpu_job(f"{root}/child"))
    assert child == f"{root}/child"


async def test_the_id_of_a_workspace_opens_it_to_nobody_else(world: World, lab: Cluster) -> None:
    bob, alice = await person(lab, "bob"), await person(lab, "alice")
    await bob.submit(cpu_job("first", bundle_blob=WORKSPACE))
    assert await bob.submit(cpu_job("again", bundle_id=WORKSPACE_ID)) == "/bob/again"
    with pytest.raises(InvalidArgument, match="you have no such bundle"):
        await alice.submit(cpu_job("takes", bundle_id=WORKSPACE_ID))
    request = handoff("/bob/hub.takes", "hub")
    request.bundle_id = WORKSPACE_ID
    with pytest.raises(ConnectError, match="no such bundle"):
        await as_peer(world.clusters["hub"], lab).controller.launch_job(request)
    # Who has the bytes has them anyway.
    assert await alice.submit(cpu_job("takes", bundle_blob=WORKSPACE)) == "/alice/takes"


async def test_cancels_of_what_never_arrived_are_bounded(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbound, "MAX_FENCES", 3)
    calls = as_peer(pair.hub, pair.lab)
    for number in range(3):
        cancel = Controller.TerminateJobRequest(job_id=f"/a/hub.x{number}", handoff_nonce=f"n{number}.m")
        await calls.controller.terminate_job(cancel)
    with pytest.raises(ConnectError) as refused:
        await calls.controller.terminate_job(Controller.TerminateJobRequest(job_id="/a/hub.y", handoff_nonce="y.m"))
    assert refused.value.code is Code.RESOURCE_EXHAUSTED
    # What it knows goes on.
    job_id = await pair.hub.client.submit(gpu_job())
    await seen(pair.hub, job_id, RUNNING)


async def test_where_users_see_their_own_only_a_task_and_the_metrics_tell_no_more(world: World, tmp_path: Path) -> None:
    auth = signing(world, "lab", tmp_path) | {"users_see_all": False}
    lab = await world.add("lab", auth=auth)
    token = await task_token(lab)
    alice = await bearer(lab, "alice")
    await (await person(lab, "alice")).submit(cpu_job("hers"))
    listed = await alice.controller.list_backends(Controller.ListBackendsRequest())
    assert sum(one.running_task_count + one.pending_task_count for one in listed.backends) == 1

    async def scrape(credential: str) -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=lab.running.asgi)) as client:
            headers = {"authorization": f"Bearer {credential}", "host": "127.0.0.1"}
            return (await client.get("http://127.0.0.1/metrics", headers=headers)).status_code

    assert await scrape(lab.running.admin_token) == 200
    assert await scrape(token) in (401, 403)
