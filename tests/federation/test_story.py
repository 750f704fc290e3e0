"""A federated job's story holds what happened on both clusters."""

from tests.federation.world import SUCCEEDED, Pair, gpu_job, in_contact, seen, started


async def test_the_story_tells_what_happened_here_and_there_in_order(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job(max_retries_failure=1))
    (first,) = await started(pair.lab)
    pair.lab.engine.finish(first, exit_code=7)
    _, second = await started(pair.lab, 2)
    pair.lab.engine.finish(second)
    await seen(pair.hub, job_id, SUCCEEDED)
    events = (await pair.hub.client.events(job_id)).events
    messages = [event.message for event in events]
    assert messages[0].startswith("submitted by")
    assert any(message.startswith("lab accepted the job") for message in messages)
    assert any(message.startswith("lab: handed over by hub") for message in messages)
    assert "lab: attempt 0 exited with code 7" in messages
    assert "lab: attempt 1 succeeded" in messages
    assert [event.time_ms for event in events] == sorted(event.time_ms for event in events)


async def test_without_the_peer_the_story_is_told_from_here(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    await pair.lab.stop()
    await in_contact(pair.hub, reachable=False)
    messages = [event.message for event in (await pair.hub.client.events(job_id)).events]
    assert messages[0].startswith("submitted by")
    assert messages[-2].startswith("ended SUCCEEDED")
    assert messages[-1] == "what happened there cannot be had from lab now"
