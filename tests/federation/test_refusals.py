"""What a peer refuses for good, what is only tried again, and what ends when time is up."""

import asyncio
import json

import pytest

from iris_fed.errors import InvalidArgument, Unavailable
from iris_fed.rpc.gen.job import job_pb2
from tests.federation.world import (
    FAILED,
    PENDING,
    RUNNING,
    Pair,
    World,
    as_peer,
    cpu_job,
    gpu_job,
    handoff,
    in_contact,
    seen,
    started,
    until,
)


def connect_error(code: str, message: str) -> bytes:
    return json.dumps({"code": code, "message": message}).encode()


async def test_a_submitter_whom_the_peer_does_not_admit_gets_its_words(world: World) -> None:
    pair = await world.pair(lab={"trusts": {"hub": ["*@elsewhere.org"]}})
    job_id = await pair.hub.client.submit(gpu_job())
    job = await seen(pair.hub, job_id, FAILED, status="REJECTED")
    assert "lab refused it: this cluster takes no jobs of" in job.error
    assert pair.wire.seen.count("LaunchJob") == 1
    assert await pair.lab.rows("SELECT 1 FROM federated_jobs") == []


async def test_a_feature_that_the_peer_cannot_honour_is_refused_by_name(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job(task_image="image:1"))
    job = await seen(pair.hub, job_id, FAILED, status="REJECTED")
    assert "task_image" in job.error
    assert not pair.lab.engine.launched


async def test_a_feature_that_no_backend_here_honours_is_refused_at_submit(pair: Pair) -> None:
    with pytest.raises(InvalidArgument, match="task_image"):
        await pair.hub.client.submit(cpu_job(task_image="image:1"))


@pytest.mark.parametrize(
    ("status", "content_type", "body", "reason"),
    [
        (
            403,
            "text/html",
            b"<html>forbidden</html>",
            "something in front of the controller refused: HTTP 403: forbidden",
        ),
        (403, "application/json", b'{"error": "forbidden"}', "something in front of the controller refused: HTTP 403"),
        (404, "text/plain", b"", "something else answers there"),
        (503, "application/json", connect_error("unavailable", "starting"), "it answered unavailable: starting"),
        (400, "application/json", connect_error("failed_precondition", "no room"), "failed_precondition: no room"),
        (501, "application/json", connect_error("unimplemented", "not yet"), "unimplemented: not yet"),
        (401, "application/json", connect_error("unauthenticated", "who?"), "unauthenticated: who?"),
        (500, "application/json", connect_error("internal", "oops"), "oops"),
    ],
    ids=["html 403", "json 403", "404", "unavailable", "precondition", "unimplemented", "unauthenticated", "internal"],
)
async def test_what_is_no_final_refusal_is_shown_and_tried_again(
    pair: Pair, status: int, content_type: str, body: bytes, reason: str
) -> None:
    pair.wire.answer("LaunchJob", status, content_type, body)
    job_id = await pair.hub.client.submit(gpu_job())
    await seen(pair.hub, job_id, PENDING, reason=reason, status="PENDING_SCHEDULING")
    pair.wire.mend()
    await seen(pair.hub, job_id, RUNNING)
    await started(pair.lab)


@pytest.mark.parametrize("code", ["already_exists", "permission_denied", "invalid_argument", "out_of_range"])
async def test_a_final_refusal_ends_the_job_in_the_words_of_the_peer(pair: Pair, code: str) -> None:
    pair.wire.answer("LaunchJob", 400, "application/json", connect_error(code, "because of this"))
    job = await seen(pair.hub, await pair.hub.client.submit(gpu_job()), FAILED, status="REJECTED")
    assert job.error == "lab refused it: because of this"


async def test_a_refusal_after_an_unanswered_delivery_first_makes_sure_that_no_copy_runs(pair: Pair) -> None:
    pair.wire.hang("LaunchJob", times=1)
    job_id = await pair.hub.client.submit(gpu_job())
    pair.wire.hang("TerminateJob", times=1)
    pair.wire.answer("LaunchJob", 400, "application/json", connect_error("permission_denied", "go away"))
    await seen(pair.hub, job_id, PENDING, reason="making sure that no earlier copy runs there")
    job = await seen(pair.hub, job_id, FAILED, status="REJECTED")
    assert job.error == "lab refused it: go away"
    status, _ = await pair.wire.deliver_late(pair.wire.held[0])
    assert status == 409
    assert not pair.lab.engine.launched


async def test_a_refusal_after_a_crash_with_a_delivery_under_way_makes_sure_that_no_copy_runs(pair: Pair) -> None:
    pair.wire.hang("LaunchJob")
    submit = asyncio.create_task(pair.hub.client.submit(gpu_job()))
    await until(lambda: _held(pair))
    await pair.hub.crash()
    with pytest.raises(Unavailable):
        await submit
    pair.wire.answer("LaunchJob", 400, "application/json", connect_error("permission_denied", "go away"))
    await pair.hub.start()
    (job,) = [job async for job in pair.hub.client.list_jobs()]
    await seen(pair.hub, job.job_id, FAILED, status="REJECTED")
    status, _ = await pair.wire.deliver_late(pair.wire.held[0])
    assert status == 409
    assert not pair.lab.engine.launched


async def _held(pair: Pair) -> bool:
    return bool(pair.wire.held)


async def test_a_job_that_could_not_be_handed_over_in_time_fails_and_says_so(world: World) -> None:
    pair = await world.pair(hub={"federation": {"handoff_expiry_s": 0.4}})
    pair.wire.answer("LaunchJob", 503, "application/json", connect_error("unavailable", "starting"))
    job = await seen(pair.hub, await pair.hub.client.submit(gpu_job()), FAILED)
    assert "could not be handed to lab in time" in job.error
    assert "starting" in job.error
    # It had been sent, so the peer was told that it must not run it.
    assert await pair.lab.rows("SELECT state FROM federated_jobs") == [{"state": "FENCED"}]


async def test_a_job_that_never_left_fails_when_its_time_is_up_although_the_peer_stays_away(world: World) -> None:
    pair = await world.pair(hub={"federation": {"handoff_expiry_s": 0.4}})
    pair.wire.cut()
    await in_contact(pair.hub, reachable=False)
    job = await seen(pair.hub, await pair.hub.client.submit(gpu_job()), FAILED, status="REJECTED")
    assert "could not be handed to lab in time" in job.error
    assert "LaunchJob" not in pair.wire.seen


async def test_a_row_that_cannot_be_applied_does_not_hold_up_the_others(world: World, pair: Pair) -> None:
    world.expected_errors.add("sync.row_refused")
    spoilt = await pair.hub.client.submit(gpu_job("spoilt"))
    good = await pair.hub.client.submit(gpu_job("good"))
    first, second = await started(pair.lab, 2)
    await seen(pair.hub, spoilt, RUNNING)
    await seen(pair.hub, good, RUNNING)
    # As no code of ours leaves it: ended, while its handle is open.
    await pair.hub.execute("UPDATE jobs SET state = 'FAILED', finished_ms = 1 WHERE job_id = ?", spoilt)
    pair.lab.engine.finish(first)
    pair.lab.engine.finish(second, exit_code=4)
    assert (await seen(pair.hub, good, FAILED)).exit_code == 4


async def test_a_replay_is_acknowledged_before_anything_else_is_asked(pair: Pair) -> None:
    """A job that was admitted goes on, whatever would be said of it today."""
    calls = as_peer(pair.hub, pair.lab)
    request = handoff("/alice/hub.train", "hub", "n1.mac")
    await calls.controller.launch_job(request)
    request.priority_band = job_pb2.PRIORITY_BAND_SYSTEM
    request.federation.submitting_user = "nobody@elsewhere"
    request.federation.expires_ms = 1
    request.federation.database_id = "another"
    assert (await calls.controller.launch_job(request)).job_id == "/alice/hub.train"
    await started(pair.lab)
