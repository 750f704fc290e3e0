"""What is over goes after its time, and a nearly full disk starts nothing."""

from typing import Any

from tests.federation.world import PENDING, RUNNING, SUCCEEDED, Pair, World, cpu_job, gpu_job, seen, started, until

AT_ONCE: dict[str, Any] = {
    "retention": {"jobs_days": 0.001, "outputs_days": 0.001, "bundles_days": 0.001, "interval_s": 0.05}
}
PAST_MS = 90_000
"""A thousandth of a day and a little."""


async def test_output_goes_first_and_the_log_says_so_then_the_job(world: World) -> None:
    here = await world.add("here", **AT_ONCE)
    job_id = await here.client.submit(cpu_job())
    (uid,) = await started(here)
    here.engine.write(uid, b"hello\n")
    here.engine.finish(uid)
    done = await seen(here, job_id, SUCCEEDED)
    assert done.retained_until.epoch_ms == done.finished_at.epoch_ms + 86_400
    await here.execute("UPDATE attempts SET finished_ms = finished_ms - ?", PAST_MS)

    async def gone() -> str | None:
        notices = [batch.notice async for batch in here.client.logs(job_id)]
        return next((notice for notice in notices if "was removed after its time" in notice), None)

    await until(gone)
    await here.execute("UPDATE jobs SET finished_ms = finished_ms - ?", PAST_MS)

    async def removed() -> bool:
        return not await here.rows("SELECT 1 FROM jobs")

    await until(removed)
    assert here.engine.attempts == {}


async def test_the_parent_keeps_its_mirror_when_the_peer_has_removed_the_job(world: World) -> None:
    pair: Pair = await world.pair(lab=AT_ONCE)
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    await pair.lab.execute("UPDATE jobs SET finished_ms = finished_ms - ?", 8 * 86_400_000)

    async def removed() -> bool:
        return not await pair.lab.rows("SELECT 1 FROM jobs")

    await until(removed)
    (handle,) = await pair.lab.rows("SELECT state, end_state FROM federated_jobs")
    assert handle == {"state": "PRUNED", "end_state": "SUCCEEDED"}
    assert (await seen(pair.hub, job_id)).state == SUCCEEDED


async def test_a_nearly_full_disk_starts_nothing_and_says_why(world: World) -> None:
    here = await world.add("here", retention={"min_free": 2**50})
    job_id = await here.client.submit(cpu_job())
    waiting = await seen(here, job_id, PENDING, reason="nothing is started while this cluster's disk is nearly full")
    assert "retention.min_free" in waiting.pending_reason
    assert here.engine.launched == []


async def test_with_room_on_the_disk_it_starts(world: World) -> None:
    here = await world.add("here", retention={"min_free": 1})
    job_id = await here.client.submit(cpu_job())
    await seen(here, job_id, RUNNING)
