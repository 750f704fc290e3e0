"""A handed-off job runs exactly once, whatever gets lost on the way."""

import asyncio
import contextlib

from iris_fed.errors import IrisFedError
from tests.federation.world import RUNNING, SUCCEEDED, Pair, gpu_job, seen, started, until


async def test_a_delivery_whose_answer_got_lost_is_repeated_under_its_nonce_and_runs_once(pair: Pair) -> None:
    # Without sync only the delivery's own answer can tell.
    pair.wire.cut()
    pair.wire.mend()
    pair.wire.lose_answers("FederationSync")
    pair.wire.lose_answers("LaunchJob", times=2)
    job_id = await pair.hub.client.submit(gpu_job())
    await seen(pair.hub, job_id, status="ASSIGNED")
    assert pair.wire.arrived.count("LaunchJob") == 3
    (handle,) = await pair.hub.rows("SELECT nonce, deliveries, state FROM federated_jobs")
    # The first may have been counted although contact was lost before it left.
    assert (handle["deliveries"] in (3, 4), handle["state"]) == (True, "HANDED_OFF")
    received = await pair.lab.rows("SELECT nonce, state FROM federated_jobs")
    assert received == [{"nonce": handle["nonce"], "state": "ADMITTED"}]
    (uid,) = await started(pair.lab)
    pair.wire.mend()
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    await started(pair.lab)


async def test_the_first_report_of_a_job_counts_as_the_answer_that_got_lost(pair: Pair) -> None:
    pair.wire.lose_answers("LaunchJob", times=1)
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    await started(pair.lab)


async def test_a_delivery_that_got_lost_is_repeated_and_runs_once(pair: Pair) -> None:
    pair.wire.lose_requests("LaunchJob", times=2)
    job_id = await pair.hub.client.submit(gpu_job())
    await seen(pair.hub, job_id, RUNNING)
    await started(pair.lab)
    assert pair.wire.seen.count("LaunchJob") == 3


async def test_a_parent_that_dies_between_commit_and_delivery_delivers_once_when_it_is_back(pair: Pair) -> None:
    pair.wire.hang("LaunchJob", times=1)
    submit = asyncio.create_task(pair.hub.client.submit(gpu_job()))
    await until(lambda: _held(pair))
    await pair.hub.crash()
    with contextlib.suppress(IrisFedError):
        await submit
    await pair.hub.start()
    (job,) = [job async for job in pair.hub.client.list_jobs()]
    await seen(pair.hub, job.job_id, RUNNING)
    # The copy that hung on the way arrives as well: it is the same incarnation.
    status, _ = await pair.wire.deliver_late(pair.wire.held[0])
    assert status == 200
    (uid,) = await started(pair.lab)
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job.job_id, SUCCEEDED)
    await started(pair.lab)


async def test_a_peer_that_dies_before_it_answers_keeps_what_it_took_and_runs_it_once(pair: Pair) -> None:
    pair.wire.lose_answers("LaunchJob")
    pair.wire.lose_answers("FederationSync")
    job_id = await pair.hub.client.submit(gpu_job())
    await started(pair.lab)
    await pair.lab.crash()
    pair.wire.mend()
    await pair.lab.start()
    await seen(pair.hub, job_id, RUNNING)
    await started(pair.lab)


async def test_many_jobs_over_a_lossy_way_run_once_each(pair: Pair) -> None:
    pair.wire.lose_answers("LaunchJob", times=7)
    ids = await asyncio.gather(*(pair.hub.client.submit(gpu_job(f"train-{n}")) for n in range(8)))
    for uid in await started(pair.lab, 8):
        pair.lab.engine.finish(uid)
    for job_id in ids:
        await seen(pair.hub, job_id, SUCCEEDED)
    assert len({request.task_id for request in pair.lab.engine.launched}) == 8
    await started(pair.lab, 8)


async def _held(pair: Pair) -> bool:
    return bool(pair.wire.held)
