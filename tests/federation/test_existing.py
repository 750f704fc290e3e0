"""A name that is taken, over a handoff; and incarnations of one name that never mix."""

import asyncio

import pytest
from connectrpc.errors import ConnectError

from iris_fed.errors import AlreadyExists
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.irisfed.cluster_pb2 import ListJobEventsRequest
from iris_fed.rpc.gen.job import job_pb2
from tests.federation.world import FAILED, RUNNING, SUCCEEDED, Pair, as_peer, gpu_job, job_of, seen, started, until

ERROR = job_pb2.EXISTING_JOB_POLICY_ERROR
KEEP = job_pb2.EXISTING_JOB_POLICY_KEEP
RECREATE = job_pb2.EXISTING_JOB_POLICY_RECREATE
DEFAULT = job_pb2.EXISTING_JOB_POLICY_UNSPECIFIED
REPLACING = [KEEP, RECREATE, DEFAULT]


async def running(pair: Pair) -> tuple[str, str]:
    """A job that was handed off and runs: its id and its attempt's uid."""
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    return job_id, uid


@pytest.mark.parametrize("policy", [ERROR, DEFAULT])
async def test_an_unfinished_job_keeps_its_name_from_another(pair: Pair, policy: job_pb2.ExistingJobPolicy) -> None:
    job_id, _ = await running(pair)
    with pytest.raises(AlreadyExists, match=job_id):
        await pair.hub.client.submit(gpu_job(existing_job_policy=policy))
    assert (await job_of(pair.hub, job_id)).state == RUNNING
    await started(pair.lab)


async def test_keep_gives_the_unfinished_job_back(pair: Pair) -> None:
    job_id, _ = await running(pair)
    assert await pair.hub.client.submit(gpu_job(existing_job_policy=KEEP)) == job_id
    await started(pair.lab)
    assert len(await pair.hub.rows("SELECT 1 FROM federated_jobs")) == 1


async def test_recreate_ends_the_unfinished_job_on_the_peer_and_starts_another(pair: Pair) -> None:
    job_id, first = await running(pair)
    assert await pair.hub.client.submit(gpu_job(existing_job_policy=RECREATE)) == job_id
    _, second = await started(pair.lab, 2)
    assert pair.lab.engine.kills == [first]
    await seen(pair.hub, job_id, RUNNING)
    pair.lab.engine.finish(second)
    await seen(pair.hub, job_id, SUCCEEDED)


async def test_a_finished_job_gives_its_name_to_nobody_under_the_policy_error(pair: Pair) -> None:
    job_id, uid = await running(pair)
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    with pytest.raises(AlreadyExists):
        await pair.hub.client.submit(gpu_job(existing_job_policy=ERROR))


@pytest.mark.parametrize("policy", REPLACING)
async def test_a_finished_name_submitted_again_is_a_new_incarnation_on_both_sides(
    pair: Pair, policy: job_pb2.ExistingJobPolicy
) -> None:
    job_id, first = await running(pair)
    pair.lab.engine.finish(first, exit_code=9)
    await seen(pair.hub, job_id, FAILED)
    await pair.hub.client.submit(gpu_job(existing_job_policy=policy))
    _, second = await started(pair.lab, 2)
    job = await seen(pair.hub, job_id, RUNNING)
    assert (job.error, job.failure_count) == ("", 0)
    states = "SELECT state FROM federated_jobs ORDER BY id"
    assert [row["state"] for row in await pair.lab.rows(states)] == ["SUPERSEDED", "ADMITTED"]
    pair.lab.engine.finish(second)
    assert (await seen(pair.hub, job_id, SUCCEEDED)).exit_code == 0
    (task,) = (await pair.hub.client.tasks(job_id)).tasks
    assert [attempt.attempt_uid for attempt in task.attempts] == [second]
    assert [row["state"] for row in await pair.hub.rows(states)] == ["CLOSED", "CLOSED"]


async def test_the_story_of_one_incarnation_is_told_without_that_of_another(pair: Pair) -> None:
    job_id, first = await running(pair)
    pair.lab.engine.finish(first)
    await seen(pair.hub, job_id, SUCCEEDED)
    await pair.hub.client.submit(gpu_job())
    await started(pair.lab, 2)
    await seen(pair.hub, job_id, RUNNING)
    old, new = await pair.hub.rows("SELECT nonce, remote_job_id FROM federated_jobs ORDER BY id")
    calls = as_peer(pair.hub, pair.lab).cluster
    told = await calls.list_job_events(ListJobEventsRequest(job_id=new["remote_job_id"], handoff_nonce=new["nonce"]))
    assert told.events
    with pytest.raises(ConnectError, match="is of another handoff"):
        await calls.list_job_events(ListJobEventsRequest(job_id=old["remote_job_id"], handoff_nonce=old["nonce"]))


@pytest.mark.parametrize("told", [job_pb2.JOB_STATE_FAILED, job_pb2.JOB_STATE_RUNNING])
async def test_a_late_row_of_an_old_incarnation_never_touches_the_new_one(pair: Pair, told: job_pb2.JobState) -> None:
    job_id, first = await running(pair)
    pair.lab.engine.finish(first)
    await seen(pair.hub, job_id, SUCCEEDED)
    await pair.hub.client.submit(gpu_job())
    _, second = await started(pair.lab, 2)
    await seen(pair.hub, job_id, RUNNING)
    await tell(pair, await old_row(pair, job_id, told))
    job = await job_of(pair.hub, job_id)
    assert (job.state, job.error) == (RUNNING, "")
    pair.lab.engine.finish(second)
    await seen(pair.hub, job_id, SUCCEEDED)
    assert pair.lab.engine.kills == []


async def old_row(pair: Pair, job_id: str, state: job_pb2.JobState) -> Controller.FederationJobDelta:
    """What a peer might say, late, of the first incarnation."""
    old, _ = await pair.hub.rows("SELECT nonce, remote_job_id FROM federated_jobs ORDER BY id")
    remote = old["remote_job_id"]
    return Controller.FederationJobDelta(
        job_id=remote,
        handoff_nonce=old["nonce"],
        summary=job_pb2.JobStatus(job_id=remote, state=state, error="an old story"),
    )


async def tell(pair: Pair, row: Controller.FederationJobDelta) -> None:
    """The parent's next sync brings this row, as the peer's answer."""
    (peer,) = await pair.hub.rows("SELECT cursor, database_id FROM federation_peers")
    answer = Controller.FederationSyncResponse(
        deltas=[row], next_cursor=peer["cursor"], database_id=peer["database_id"], long_poll=True
    )
    # Breaks the held request; the next one is answered by us, and those after it by the peer again.
    pair.wire.mend()
    pair.wire.answer("FederationSync", 200, "application/proto", answer.SerializeToString())
    before = pair.wire.seen.count("FederationSync")
    await until(lambda: _asked(pair, before + 2))
    pair.wire.mend()


async def _asked(pair: Pair, count: int) -> bool:
    await asyncio.sleep(0)
    return pair.wire.seen.count("FederationSync") >= count
