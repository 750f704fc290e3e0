"""A parent that lost its database, or has an older one, takes up again what its peers run for it; and what was
believed lost is taken back."""

import shutil
from pathlib import Path

import pytest

from iris_fed.client import Client
from iris_fed.model.ids import parse_job_id
from iris_fed.rpc.gen.job import job_pb2
from tests.federation.world import (
    FAILED,
    KILLED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    WORKER_FAILED,
    Cluster,
    Pair,
    World,
    as_peer,
    cpu_job,
    gpu_job,
    handoff,
    in_contact,
    job_of,
    pinned,
    seen,
    started,
    until,
)

KEEP = job_pb2.EXISTING_JOB_POLICY_KEEP
RECREATE = job_pb2.EXISTING_JOB_POLICY_RECREATE
HASTY = {"lost_after_s": 0.4}


@pytest.fixture
async def hasty(world: World) -> Pair:
    """What is missing is lost soon."""
    return await world.pair(hub={"federation": HASTY})


async def lose_database(cluster: Cluster) -> None:
    await cluster.stop()
    cluster.wipe()
    await cluster.start()
    await in_contact(cluster)


def keep_copy(cluster: Cluster, name: str) -> Path:
    """Of the files of a controller that does not run."""
    assert cluster.controller is None
    copy = cluster.directory / name
    shutil.copytree(cluster.state_dir, copy)
    return copy


def put_back(cluster: Cluster, copy: Path) -> None:
    assert cluster.controller is None
    shutil.rmtree(cluster.state_dir)
    shutil.copytree(copy, cluster.state_dir)


async def ids_of_handles(cluster: Cluster) -> list[tuple[str, str, int]]:
    rows = await cluster.rows("SELECT job_id, state, adopted FROM federated_jobs WHERE direction = 'SENT' ORDER BY id")
    return [(row["job_id"], row["state"], row["adopted"]) for row in rows]


async def test_a_parent_that_lost_its_database_adopts_what_runs_and_what_ended(pair: Pair) -> None:
    running = await pair.hub.client.submit(gpu_job("running", replicas=2))
    ended = await pair.hub.client.submit(gpu_job("ended"))
    uids = await started(pair.lab, 3)
    pair.lab.engine.finish(uids[2], exit_code=5)
    await seen(pair.hub, ended, FAILED)
    await lose_database(pair.hub)
    job = await seen(pair.hub, running, RUNNING, status="SYNCED")
    assert (job.task_count, job.cluster) == (2, "lab")
    assert (await seen(pair.hub, ended, FAILED)).exit_code == 5
    assert [handle[2] for handle in await ids_of_handles(pair.hub)] == [1, 1]
    for uid in uids[:2]:
        pair.lab.engine.finish(uid)
    await seen(pair.hub, running, SUCCEEDED)
    events = [event.message for event in (await pair.hub.client.events(running)).events]
    assert any("adopted" in message for message in events)
    assert len(pair.lab.engine.launched) == 3


async def test_an_adopted_job_can_be_cancelled(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    await started(pair.lab)
    await lose_database(pair.hub)
    await seen(pair.hub, job_id, RUNNING)
    await pair.hub.client.cancel(job_id)
    await seen(pair.hub, job_id, KILLED)


async def test_children_of_an_adopted_job_are_mirrored_again(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    token = next(r.env["IRIS_TASK_TOKEN"] for r in pair.lab.engine.launched if r.attempt_uid == uid)
    await Client(pair.lab.url, token=token, transport=pair.lab.transport()).submit(cpu_job("below"))
    await seen(pair.hub, f"{job_id}/below", RUNNING)
    await lose_database(pair.hub)
    await seen(pair.hub, f"{job_id}/below", RUNNING)


async def test_a_nonce_that_this_cluster_did_not_mint_is_never_adopted(pair: Pair) -> None:
    forged = as_peer(pair.hub, pair.lab)
    await forged.controller.launch_job(handoff("/alice/hub.forged", "hub", "forged.0123456789abcdef"))
    await started(pair.lab)
    honest = await pair.hub.client.submit(gpu_job("honest"))
    await seen(pair.hub, honest, RUNNING)
    assert [handle[0] for handle in await ids_of_handles(pair.hub)] == [honest]
    assert [job.job_id async for job in pair.hub.client.list_jobs()] == [honest]


async def test_the_name_in_use_here_leaves_the_other_one_alone_and_shows_it_as_an_orphan(pair: Pair) -> None:
    await pair.hub.client.submit(gpu_job("work"))
    (uid,) = await started(pair.lab)
    await pair.hub.stop()
    pair.hub.wipe()
    pair.wire.hang("FederationSync")
    await pair.hub.start()
    here = await pair.hub.client.submit(cpu_job("work"))
    (local,) = await started(pair.hub)
    pair.wire.mend()

    async def shown() -> list[str]:
        (peer,) = (await pair.hub.client.peers()).peers
        return list(peer.orphans)

    assert await until(shown) == [here.replace("/work", "/hub.work")]
    assert (await job_of(pair.hub, here)).cluster == ""
    assert pair.lab.engine.kills == []
    pair.hub.engine.finish(local)
    await seen(pair.hub, here, SUCCEEDED)
    # Its name is free now: the next news of it, or the next full set, brings it in.
    pair.lab.engine.finish(uid, exit_code=3)
    assert (await seen(pair.hub, here, FAILED)).exit_code == 3


async def test_keep_over_what_the_lost_database_had_submitted_follows_the_one_that_runs(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await pair.hub.stop()
    pair.hub.wipe()
    pair.wire.hang("FederationSync")
    await pair.hub.start()
    request = gpu_job(existing_job_policy=KEEP)
    assert await pair.hub.client.submit(request) == job_id
    pair.wire.mend()
    await seen(pair.hub, job_id, RUNNING, status="SYNCED")
    pair.lab.engine.finish(uid, exit_code=2)
    assert (await seen(pair.hub, job_id, FAILED)).exit_code == 2
    assert len(pair.lab.engine.launched) == 1


async def test_recreate_over_what_the_lost_database_had_submitted_ends_it_and_runs_the_new_one(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (old,) = await started(pair.lab)
    await pair.hub.stop()
    pair.hub.wipe()
    pair.wire.hang("FederationSync")
    await pair.hub.start()
    await pair.hub.client.submit(gpu_job(existing_job_policy=RECREATE))
    pair.wire.mend()
    uids = await started(pair.lab, 2)
    assert old in pair.lab.engine.kills
    await seen(pair.hub, job_id, RUNNING)
    pair.lab.engine.finish(uids[1])
    await seen(pair.hub, job_id, SUCCEEDED)


async def test_a_parent_with_an_older_database_follows_what_was_submitted_since(pair: Pair) -> None:
    first = await pair.hub.client.submit(gpu_job("first"))
    (uid,) = await started(pair.lab)
    await seen(pair.hub, first, RUNNING)
    await pair.hub.stop()
    copy = keep_copy(pair.hub, "copy")
    await pair.hub.start()
    await in_contact(pair.hub)
    pair.lab.engine.finish(uid)
    await seen(pair.hub, first, SUCCEEDED)
    again = await pair.hub.client.submit(gpu_job("first"))
    second = await pair.hub.client.submit(gpu_job("second"))
    uids = await started(pair.lab, 3)
    await pair.hub.stop()
    put_back(pair.hub, copy)
    await pair.hub.start()
    await seen(pair.hub, second, RUNNING)
    await seen(pair.hub, again, RUNNING)
    pair.lab.engine.finish(uids[1], exit_code=8)
    assert (await seen(pair.hub, first, FAILED)).exit_code == 8
    assert len(pair.lab.engine.launched) == 3


async def test_a_job_that_the_peer_shows_again_was_not_lost(hasty: Pair) -> None:
    job_id = await hasty.hub.client.submit(gpu_job())
    (uid,) = await started(hasty.lab)
    await seen(hasty.hub, job_id, RUNNING)
    await hasty.lab.stop()
    right = keep_copy(hasty.lab, "right")
    hasty.lab.wipe()
    aside, hasty.lab.engine.attempts = hasty.lab.engine.attempts, {}
    await hasty.lab.start()
    lost = await seen(hasty.hub, job_id, WORKER_FAILED)
    assert "lost" in lost.error
    await hasty.lab.stop()
    put_back(hasty.lab, right)
    hasty.lab.engine.attempts = aside
    await hasty.lab.start()
    back = await seen(hasty.hub, job_id, RUNNING)
    assert not back.error
    hasty.lab.engine.finish(uid)
    assert (await seen(hasty.hub, job_id, SUCCEEDED)).exit_code == 0
    assert len(hasty.lab.engine.launched) == 1


async def test_a_parent_that_restarts_while_a_job_is_missing_goes_on_asking(hasty: Pair) -> None:
    job_id = await hasty.hub.client.submit(gpu_job())
    await started(hasty.lab)
    await seen(hasty.hub, job_id, RUNNING)
    hasty.hub.federation = {"lost_after_s": 1000.0}
    await hasty.hub.restart()
    await in_contact(hasty.hub)
    await hasty.lab.stop()
    hasty.lab.wipe()
    hasty.lab.engine.attempts.clear()
    await hasty.lab.start()
    await seen(hasty.hub, job_id, RUNNING, reason="does not show this job any more")
    hasty.hub.federation = HASTY
    await hasty.hub.restart()
    assert "lost" in (await seen(hasty.hub, job_id, WORKER_FAILED)).error


async def test_a_lost_job_whose_name_was_used_since_stays_lost_and_ends_there(hasty: Pair) -> None:
    job_id = await hasty.hub.client.submit(gpu_job())
    (uid,) = await started(hasty.lab)
    await seen(hasty.hub, job_id, RUNNING)
    await hasty.lab.stop()
    right = keep_copy(hasty.lab, "right")
    hasty.lab.wipe()
    aside, hasty.lab.engine.attempts = hasty.lab.engine.attempts, {}
    await hasty.lab.start()
    await seen(hasty.hub, job_id, WORKER_FAILED)
    await hasty.hub.client.submit(pinned(cpu_job(parse_job_id(job_id).parts[-1]), backend="cpu"))
    (local,) = await started(hasty.hub)
    await hasty.lab.stop()
    put_back(hasty.lab, right)
    hasty.lab.engine.attempts = aside
    await hasty.lab.start()

    async def killed() -> bool:
        return uid in hasty.lab.engine.kills

    await until(killed)
    hasty.hub.engine.finish(local)
    assert (await seen(hasty.hub, job_id, SUCCEEDED)).cluster == ""


async def test_a_database_put_in_the_place_of_the_peers_makes_the_parent_ask_for_everything(pair: Pair) -> None:
    """An older copy whose last row the parent's cursor still names is told by its id, or by what it lacks."""
    first = await pair.hub.client.submit(gpu_job("first"))
    await started(pair.lab)
    await seen(pair.hub, first, RUNNING)
    await pair.lab.stop()
    copy = keep_copy(pair.lab, "copy")
    await pair.lab.start()
    await in_contact(pair.hub)
    second = await pair.hub.client.submit(gpu_job("second"))
    await seen(pair.hub, second, RUNNING)
    await pair.lab.stop()
    put_back(pair.lab, copy)
    await pair.lab.start()
    await seen(pair.hub, second, RUNNING, PENDING, reason="does not show this job any more")
    assert (await job_of(pair.hub, first)).pending_reason == ""
