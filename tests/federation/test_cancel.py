"""Cancel wins: what was cancelled does not start, and what ended first keeps its end."""

import asyncio

from iris_fed.backends.base import BackendUnavailable, LaunchRequest
from tests.federation.world import (
    KILLED,
    RUNNING,
    SUCCEEDED,
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


async def test_a_job_that_was_cancelled_before_it_was_sent_ends_at_once_and_never_leaves(pair: Pair) -> None:
    pair.wire.cut()
    await in_contact(pair.hub, reachable=False)
    job_id = await pair.hub.client.submit(gpu_job("cancelled"))
    await pair.hub.client.cancel(job_id)
    job = await job_of(pair.hub, job_id)
    assert job.state == KILLED
    assert "before it was sent" in job.error
    pair.wire.mend()
    await in_contact(pair.hub)
    await seen(pair.hub, await pair.hub.client.submit(gpu_job("next")), RUNNING)
    assert [request.task_id.split("/")[2] for request in pair.lab.engine.launched] == ["hub.next"]


async def test_a_job_cancelled_while_its_delivery_is_unanswered_never_starts_even_if_it_arrives_later(
    pair: Pair,
) -> None:
    pair.wire.hang("LaunchJob", times=1)
    submit = asyncio.create_task(pair.hub.client.submit(gpu_job()))
    await until(lambda: _held(pair))
    (job_id,) = [job.job_id async for job in pair.hub.client.list_jobs()]
    await pair.hub.client.cancel(job_id)
    job = await seen(pair.hub, job_id, KILLED)
    assert job.error != ""
    await submit
    status, body = await pair.wire.deliver_late(pair.wire.held[0])
    assert (status, b"already_exists" in body) == (409, True)
    assert await pair.lab.rows("SELECT state FROM federated_jobs") == [{"state": "FENCED"}]
    assert await pair.lab.rows("SELECT 1 FROM jobs") == []


async def test_cancelling_a_running_job_stops_it_on_the_peer_and_says_what_it_waits_for(pair: Pair) -> None:
    pair.lab.engine.holds_kills = True
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    await pair.hub.client.cancel(job_id)
    await seen(pair.hub, job_id, RUNNING, reason="lab is ending it")
    await until(lambda: _killed(pair, uid))
    pair.lab.engine.holds_kills = False
    pair.lab.engine.kill(uid)
    job = await seen(pair.hub, job_id, KILLED)
    assert job.pending_reason == ""


async def test_a_job_that_ended_keeps_its_end_when_it_is_cancelled(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    await pair.hub.client.cancel(job_id)
    assert (await job_of(pair.hub, job_id)).state == SUCCEEDED
    assert "TerminateJob" not in pair.wire.seen


async def test_a_cancel_that_cannot_reach_the_peer_says_so_until_it_is_heard(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    pair.wire.cut()
    await pair.hub.client.cancel(job_id)
    await seen(pair.hub, job_id, RUNNING, reason="lab has not confirmed it yet")
    pair.wire.mend()
    await seen(pair.hub, job_id, KILLED)


async def test_a_job_that_ended_on_the_peer_before_the_cancel_arrived_keeps_that_end(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    pair.wire.cut()
    await pair.hub.client.cancel(job_id)
    pair.lab.engine.finish(uid)
    await seen(pair.lab, job_id.replace("/train", "/hub.train"), SUCCEEDED)
    pair.wire.mend()
    job = await seen(pair.hub, job_id, KILLED, SUCCEEDED)
    assert (job.state, job.exit_code) == (SUCCEEDED, 0)


async def test_a_cancel_survives_a_crash_of_the_parent_before_it_was_heard(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    pair.wire.hang("TerminateJob")
    await pair.hub.client.cancel(job_id)
    await pair.hub.crash()
    await pair.hub.start()
    await seen(pair.hub, job_id, KILLED)


async def test_jobs_that_are_cancelled_at_any_moment_of_their_way_all_end_and_leave_nothing_running(pair: Pair) -> None:
    async def submit_and_cancel(number: int) -> str:
        name = f"train-{number}"
        submit = asyncio.create_task(pair.hub.client.submit(gpu_job(name)))
        user = (await pair.hub.client.whoami()).user_id
        # Sooner or later by a few requests each.
        for _ in range(number):
            await pair.hub.client.info()
        await until(lambda: _exists(pair, f"/{user}/{name}"))
        await pair.hub.client.cancel(f"/{user}/{name}")
        return await submit

    ids = await asyncio.gather(*(submit_and_cancel(number) for number in range(8)))
    for job_id in ids:
        await seen(pair.hub, job_id, KILLED)
    engine = pair.lab.engine
    assert [uid for uid, attempt in engine.attempts.items() if attempt.end is None] == []
    assert await pair.hub.rows("SELECT 1 FROM federated_jobs WHERE state <> 'CLOSED'") == []


async def _exists(pair: Pair, job_id: str) -> bool:
    return job_id in await pair.hub.client.job_states([job_id])


async def _held(pair: Pair) -> bool:
    return bool(pair.wire.held)


async def _killed(pair: Pair, uid: str) -> bool:
    return uid in pair.lab.engine.kills


async def test_what_could_not_be_started_and_was_cancelled_meanwhile_is_never_started(world: World) -> None:
    hub = await world.add("hub")
    await hub.client.submit(cpu_job("first"))
    await started(hub)
    hub.engine.unavailable = True
    job_id = await hub.client.submit(cpu_job())

    async def committed() -> bool:
        return len(await hub.rows("SELECT 1 FROM attempts")) == 2

    await until(committed)
    await hub.client.cancel(job_id)
    hub.engine.unavailable = False
    killed = await seen(hub, job_id, KILLED)
    assert "cancelled by" in killed.error
    assert len(hub.engine.launched) == 1


async def test_a_launch_whose_answer_was_lost_is_ended_by_a_cancel(world: World) -> None:
    hub = await world.add("hub")

    def starts_but_does_not_say_so(request: LaunchRequest) -> None:
        hub.engine.unavailable = True
        raise BackendUnavailable("the answer was lost")

    hub.engine.auto = starts_but_does_not_say_so
    job_id = await hub.client.submit(cpu_job())
    (uid,) = await started(hub)
    await hub.client.cancel(job_id)
    hub.engine.unavailable = False
    await seen(hub, job_id, KILLED)
    assert hub.engine.kills == [uid]
    assert len(hub.engine.launched) == 1
