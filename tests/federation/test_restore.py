"""A database put back from a backup, or by hand: nothing runs twice, nothing is lost without a word, all converges."""

import shutil
from pathlib import Path
from typing import Any

import httpx

from iris_fed.backends.base import LaunchRequest, Owner
from iris_fed.clock import SystemClock, SystemEntropy
from iris_fed.model.resources import Resources
from iris_fed.store.backup import backup_database
from iris_fed.store.check import check_database
from iris_fed.store.opening import DATABASE_NAME
from iris_fed.store.restore import restore_database
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
    cpu_job,
    gpu_job,
    in_contact,
    job_of,
    seen,
    started,
    until,
)

LOST = "lost: this cluster's database was restored from a backup of "
QUICK: dict[str, Any] = {"federation": {"lost_after_s": 0.3}}
REMOTE = "/hub.train"


def back_up(cluster: Cluster) -> Path:
    """While it runs."""
    target = cluster.directory / "backup.db"
    backup_database(cluster.state_dir / DATABASE_NAME, target, SystemClock().now_ms())
    return target


def put_back(cluster: Cluster, copy: Path) -> None:
    restore_database(copy, cluster.state_dir, SystemEntropy().token(), SystemClock().now_ms(), cluster.name)


async def restore(cluster: Cluster, copy: Path) -> None:
    await cluster.stop()
    put_back(cluster, copy)
    await cluster.start()


async def forget(cluster: Cluster, uid: str) -> None:
    """The attempt is over and nothing of it is left."""
    cluster.engine.finish(uid)
    del cluster.engine.attempts[uid]


async def is_sound(*clusters: Cluster) -> None:
    for cluster in clusters:
        await cluster.stop()
        assert check_database(cluster.state_dir / DATABASE_NAME) == []


# --- one cluster ---


async def test_what_still_runs_goes_on_and_its_end_is_learned(world: World) -> None:
    lab = await world.add("lab", h100=8)
    job_id = await lab.client.submit(gpu_job())
    (uid,) = await started(lab)
    await seen(lab, job_id, RUNNING)
    await restore(lab, back_up(lab))
    assert (await seen(lab, job_id)).state == RUNNING
    lab.engine.finish(uid)
    await seen(lab, job_id, SUCCEEDED)
    assert lab.engine.kills == []
    await is_sound(lab)


async def test_what_ended_since_the_backup_has_ended_so(world: World) -> None:
    lab = await world.add("lab", h100=8)
    job_id = await lab.client.submit(gpu_job())
    (uid,) = await started(lab)
    await seen(lab, job_id, RUNNING)
    copy = back_up(lab)
    lab.engine.finish(uid)
    await restore(lab, copy)
    assert (await seen(lab, job_id, SUCCEEDED)).exit_code == 0


async def test_what_runs_no_more_is_lost_and_says_of_when_the_backup_was(world: World) -> None:
    lab = await world.add("lab", h100=8)
    job_id = await lab.client.submit(gpu_job(max_retries_preemption=5, max_retries_failure=5))
    (uid,) = await started(lab)
    await seen(lab, job_id, RUNNING)
    copy = back_up(lab)
    await forget(lab, uid)
    await restore(lab, copy)
    job = await seen(lab, job_id, WORKER_FAILED)
    assert job.error.startswith(LOST)
    assert job.error.endswith(" UTC; it may have run since")
    (task,) = (await lab.client.tasks(job_id)).tasks
    assert task.error == task.attempts[0].error == job.error
    assert len(lab.engine.launched) == 1
    await is_sound(lab)


async def test_what_was_waiting_is_lost_too_and_never_started_though_there_is_room(world: World) -> None:
    lab = await world.add("lab", h100=8)
    await lab.client.submit(gpu_job("first", count=8))
    await started(lab)
    waiting = await lab.client.submit(gpu_job("second", count=8))
    await seen(lab, waiting, PENDING, reason="h100")
    copy = back_up(lab)
    await forget(lab, lab.engine.launched[0].attempt_uid)
    await restore(lab, copy)
    assert (await seen(lab, waiting, WORKER_FAILED)).error.startswith(LOST)
    later = await lab.client.submit(gpu_job("third", count=8))
    await seen(lab, later, RUNNING)
    assert [request.task_id for request in lab.engine.launched] == [
        f"{waiting.replace('second', name)}/0" for name in ("first", "third")
    ]


async def test_a_failed_attempt_is_not_tried_again_since_it_may_have_been(world: World) -> None:
    lab = await world.add("lab", h100=8)
    job_id = await lab.client.submit(gpu_job(max_retries_failure=5))
    (uid,) = await started(lab)
    await seen(lab, job_id, RUNNING)
    copy = back_up(lab)
    lab.engine.finish(uid, 3)
    again = (await started(lab, 2))[1]
    await restore(lab, copy)
    assert (await seen(lab, job_id, WORKER_FAILED)).error.startswith(LOST)
    assert lab.engine.kills == [again], "its second attempt is of an ancestor, and unknown"
    assert len(lab.engine.launched) == 2


async def test_a_job_goes_on_with_the_tasks_that_run_as_far_as_it_survives_the_loss_of_the_others(world: World) -> None:
    lab = await world.add("lab", h100=8)
    survivor = await lab.client.submit(gpu_job("survivor", replicas=2, max_task_failures=1))
    strict = await lab.client.submit(gpu_job("strict", replicas=2))
    uids = {request.task_id: request.attempt_uid for request in lab.engine.launched} if await started(lab, 4) else {}
    for job_id in (survivor, strict):
        await seen(lab, job_id, RUNNING)
    copy = back_up(lab)
    for job_id in (survivor, strict):
        await forget(lab, uids[f"{job_id}/1"])
    await restore(lab, copy)
    ended = await seen(lab, strict, WORKER_FAILED)
    assert ended.error.startswith("task 1 " + LOST)
    assert lab.engine.kills == [uids[f"{strict}/0"]]
    lab.engine.finish(uids[f"{survivor}/0"])
    await seen(lab, survivor, SUCCEEDED)
    await is_sound(lab)


async def test_a_cancelled_job_ends_as_cancelled(world: World) -> None:
    lab = await world.add("lab", h100=8)
    lab.engine.holds_kills = True
    job_id = await lab.client.submit(gpu_job())
    (uid,) = await started(lab)
    await lab.client.cancel(job_id)
    copy = back_up(lab)
    await forget(lab, uid)
    await restore(lab, copy)
    assert (await seen(lab, job_id, KILLED)).error.startswith("cancelled by")


async def test_attempts_that_the_backup_does_not_know_end_before_anything_starts(world: World) -> None:
    lab = await world.add("lab", h100=8)
    copy = back_up(lab)
    await lab.client.submit(gpu_job())
    (unknown,) = await started(lab)
    lab.engine.holds_kills = True
    await restore(lab, copy)
    again = await lab.client.submit(gpu_job())

    async def asked_to_end() -> bool:
        return lab.engine.kills == [unknown]

    await until(asked_to_end)
    assert "nothing is started until 1 attempts that are not in this database have ended" in await readyz(lab)
    assert len(lab.engine.launched) == 1
    lab.engine.holds_kills = False
    lab.engine.kill(unknown)
    await seen(lab, again, RUNNING)
    assert await readyz(lab) == "ok\n"


async def test_attempts_of_another_database_are_left_alone_take_capacity_and_are_told_of(world: World) -> None:
    lab = await world.add("lab", h100=8, start=False)
    request = LaunchRequest("theirs", "/eve/train/0", ("x",), {}, Resources(cpu_millicores=8_000))
    assert lab.engine.ledger.reserve("theirs", request.resources)
    lab.engine.start(request, Owner("lab", "db-of-somebody-else"))
    await lab.start()
    job_id = await lab.client.submit(cpu_job())
    await seen(lab, job_id, PENDING, reason="0 free")
    note = (await readyz(lab)).splitlines()[1]
    assert note.startswith("note: attempt theirs (/eve/train/0) of database db-of-somebody-else of cluster lab runs")
    assert lab.engine.kills == []
    lab.engine.finish("theirs")
    await seen(lab, job_id, RUNNING)

    async def told_no_more() -> bool:
        return await readyz(lab) == "ok\n"

    await until(told_no_more)


async def test_only_the_first_start_after_a_restore_gives_anything_up(world: World) -> None:
    lab = await world.add("lab", h100=8)
    job_id = await lab.client.submit(gpu_job(max_retries_failure=1))
    (uid,) = await started(lab)
    await seen(lab, job_id, RUNNING)
    await restore(lab, back_up(lab))

    async def has_met_what_runs() -> bool:
        return not await lab.rows("SELECT 1 FROM cluster_meta WHERE key = 'restored'")

    await until(has_met_what_runs)
    lab.engine.finish(uid, 3)
    await seen(lab, job_id, PENDING, reason="the next follows")
    await lab.restart()
    again = (await started(lab, 2))[1]
    lab.engine.finish(again)
    await seen(lab, job_id, SUCCEEDED)


async def readyz(cluster: Cluster) -> str:
    app = httpx.ASGITransport(app=cluster.running.asgi)
    async with httpx.AsyncClient(transport=app, base_url="http://127.0.0.1") as client:
        answer = await client.get("/readyz")
    assert answer.status_code == 200
    return answer.text


# --- a peer is restored ---


async def test_a_job_that_still_runs_on_a_restored_peer_ends_on_its_parent_as_there(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    await restore(pair.lab, back_up(pair.lab))
    pair.lab.engine.finish(uid, 3)
    assert (await seen(pair.hub, job_id, FAILED)).exit_code == 3
    await is_sound(pair.hub, pair.lab)


async def test_a_job_that_a_restored_peer_lost_ends_so_on_its_parent_with_the_reason(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    copy = back_up(pair.lab)
    pair.wire.cut()
    await forget(pair.lab, uid)
    await restore(pair.lab, copy)
    pair.wire.mend()
    assert (await seen(pair.hub, job_id, WORKER_FAILED)).error.startswith(LOST)
    assert len(pair.lab.engine.launched) == 1
    await is_sound(pair.hub, pair.lab)


async def test_a_job_delivered_after_the_backup_is_ended_there_and_lost_on_the_parent(world: World) -> None:
    pair = await world.pair(hub=QUICK)
    copy = back_up(pair.lab)
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    await restore(pair.lab, copy)
    await seen(pair.hub, job_id, WORKER_FAILED)
    assert pair.lab.engine.kills == [uid]
    again = await pair.hub.client.submit(gpu_job())
    assert again == job_id
    await seen(pair.hub, job_id, RUNNING)
    assert len(pair.lab.engine.launched) == 2
    await is_sound(pair.hub, pair.lab)


async def test_a_database_put_back_by_hand_is_noticed_by_the_next_sync(world: World) -> None:
    pair = await world.pair(hub=QUICK)
    await pair.lab.stop()
    aside = pair.lab.directory / "aside.db"
    shutil.copyfile(pair.lab.state_dir / DATABASE_NAME, aside)
    await pair.lab.start()
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    await pair.lab.stop()
    shutil.copyfile(aside, pair.lab.state_dir / DATABASE_NAME)
    await pair.lab.start()
    await seen(pair.hub, job_id, WORKER_FAILED)
    assert pair.lab.engine.kills == [uid]
    await is_sound(pair.hub, pair.lab)


# --- a parent is restored ---


async def test_a_handoff_that_waited_at_the_backup_and_ran_since_is_not_run_again(pair: Pair) -> None:
    pair.wire.cut()
    await in_contact(pair.hub, reachable=False)
    job_id = await pair.hub.client.submit(gpu_job())
    copy = back_up(pair.hub)
    pair.wire.mend()
    (uid,) = await started(pair.lab)
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    await restore(pair.hub, copy)
    await seen(pair.hub, job_id, SUCCEEDED)
    assert len(pair.lab.engine.launched) == 1
    await is_sound(pair.hub, pair.lab)


async def test_a_handoff_that_waited_at_the_backup_and_never_left_is_delivered_once(pair: Pair) -> None:
    pair.wire.cut()
    await in_contact(pair.hub, reachable=False)
    job_id = await pair.hub.client.submit(gpu_job())
    await restore(pair.hub, back_up(pair.hub))
    pair.wire.mend()
    (uid,) = await started(pair.lab)
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    await is_sound(pair.hub, pair.lab)


async def test_a_mirror_of_what_ran_on_meanwhile_catches_up(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    copy = back_up(pair.hub)
    pair.lab.engine.finish(uid, 5)
    await seen(pair.hub, job_id, FAILED)
    await restore(pair.hub, copy)
    assert (await seen(pair.hub, job_id, FAILED)).exit_code == 5
    assert (await job_of(pair.lab, job_id.replace("/train", REMOTE))).state == FAILED
    await is_sound(pair.hub, pair.lab)


async def test_a_job_submitted_after_the_backup_is_adopted_again(pair: Pair) -> None:
    copy = back_up(pair.hub)
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    await restore(pair.hub, copy)
    await seen(pair.hub, job_id, RUNNING)
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    await is_sound(pair.hub, pair.lab)
