"""What the parent shows of a job that runs elsewhere."""

import pytest

from iris_fed.model.resources import Usage
from iris_fed.rpc.gen.job import job_pb2
from tests.federation.world import FAILED, PENDING, RUNNING, SUCCEEDED, Pair, gpu_job, seen, started, until


async def test_the_mirror_shows_tasks_attempts_and_exit_codes(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job(count=4, replicas=2, max_task_failures=1))
    first, second = await started(pair.lab, 2)
    await seen(pair.hub, job_id, RUNNING, status="SYNCED")
    pair.lab.engine.finish(first)
    pair.lab.engine.finish(second, exit_code=3)
    job = await seen(pair.hub, job_id, SUCCEEDED, FAILED)
    there = await seen(pair.lab, job_id.replace("/train", "/hub.train"))
    assert (job.state, job.exit_code, job.failure_count) == (there.state, there.exit_code, 1)
    tasks = (await pair.hub.client.tasks(job_id)).tasks
    assert [(task.state, task.exit_code) for task in tasks] == [
        (job_pb2.TASK_STATE_SUCCEEDED, 0),
        (job_pb2.TASK_STATE_FAILED, 3),
    ]
    assert [task.task_id for task in tasks] == [f"{job_id}/0", f"{job_id}/1"]
    assert [attempt.attempt_uid for task in tasks for attempt in task.attempts] == [first, second]
    assert {attempt.node_name for task in tasks for attempt in task.attempts} == {"lab-node"}
    assert {task.cluster for task in tasks} == {"lab"}


async def test_an_attempt_that_is_tried_again_shows_as_two_attempts_of_one_task(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job(max_retries_failure=1))
    (first,) = await started(pair.lab)
    pair.lab.engine.finish(first, exit_code=7)
    _, second = await started(pair.lab, 2)
    pair.lab.engine.finish(second)
    await seen(pair.hub, job_id, SUCCEEDED)
    (task,) = (await pair.hub.client.tasks(job_id)).tasks
    assert [(attempt.attempt_uid, attempt.exit_code) for attempt in task.attempts] == [(first, 7), (second, 0)]


async def test_why_a_job_waits_on_the_peer_is_shown_on_the_parent(pair: Pair) -> None:
    await pair.lab.client.submit(gpu_job("busy", count=8))
    (busy,) = await started(pair.lab)
    job_id = await pair.hub.client.submit(gpu_job(count=8))
    waiting = await seen(pair.hub, job_id, PENDING, reason="lab: ")
    assert "h100" in waiting.pending_reason
    pair.lab.engine.finish(busy)
    running = await seen(pair.hub, job_id, RUNNING)
    assert running.pending_reason == ""


async def test_the_usage_that_the_peer_measures_is_shown_on_the_parent(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    used = Usage(memory_bytes=300 * 2**20, memory_peak_bytes=400 * 2**20, cpu_millicores=1500, process_count=3)
    pair.lab.engine.use(uid, used)

    async def measured() -> job_pb2.ResourceUsage | None:
        tasks = (await pair.hub.client.tasks(job_id)).tasks
        return tasks[0].resource_usage if tasks and tasks[0].resource_usage.memory_mb else None

    usage = await until(measured)
    assert usage is not None
    assert (usage.memory_mb, usage.memory_peak_mb, usage.cpu_millicores, usage.process_count) == (300, 400, 1500, 3)


async def test_news_comes_by_the_held_answer_and_costs_one_request_each(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    before = pair.wire.seen.count("FederationSync")
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    # The held request was under way already: what follows is the next one, held again.
    assert pair.wire.seen.count("FederationSync") - before <= 2


@pytest.mark.parametrize("how", ["restart", "crash"])
@pytest.mark.parametrize("side", ["hub", "lab"])
async def test_a_job_goes_on_when_a_controller_goes_down_in_the_middle(pair: Pair, side: str, how: str) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    cluster = pair.hub if side == "hub" else pair.lab
    await (cluster.stop() if how == "restart" else cluster.crash())
    if side == "hub":
        # What happens meanwhile is learned afterwards.
        pair.lab.engine.finish(uid, exit_code=5)
        await seen(pair.lab, job_id.replace("/train", "/hub.train"), FAILED)
    await cluster.start()
    if side == "lab":
        await seen(pair.hub, job_id, RUNNING)
        pair.lab.engine.finish(uid, exit_code=5)
    job = await seen(pair.hub, job_id, FAILED)
    assert job.exit_code == 5
    assert await started(pair.lab) == [uid]


async def test_what_ended_while_the_peer_was_away_is_told_when_it_is_back(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    await pair.lab.stop()
    pair.lab.engine.finish(uid)
    await pair.lab.start()
    assert (await seen(pair.hub, job_id, SUCCEEDED)).exit_code == 0
