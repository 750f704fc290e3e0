"""Tries, budgets and the waits between them, and that nothing of a former try is lost."""

from dataclasses import replace
from pathlib import Path

import pytest

from iris_fed.backends.base import AttemptEnd, EndKind
from iris_fed.controller.launching import TaskLink
from iris_fed.controller.observe import apply_observations
from iris_fed.controller.placing import Placing, Terms, place_waiting
from iris_fed.decide.placement import Place
from iris_fed.model.observed import Ended
from iris_fed.model.resources import BackendSummary, NodeFree
from iris_fed.rpc.gen.job import job_pb2
from iris_fed.store.connection import connect_sqlite
from iris_fed.store.db import Tx
from iris_fed.store.jobs import insert_job
from iris_fed.store.migrate import load_migrations, migrate
from tests.federation.world import (
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    Cluster,
    Pair,
    World,
    gpu_job,
    job_of,
    seen,
    until,
)
from tests.store.samples import NOON, local_job

TASK_FAILED, TASK_SUCCEEDED = job_pb2.TASK_STATE_FAILED, job_pb2.TASK_STATE_SUCCEEDED
TASK_KILLED, TASK_WORKER_FAILED = job_pb2.TASK_STATE_KILLED, job_pb2.TASK_STATE_WORKER_FAILED


async def attempt_of(cluster: Cluster, index: int = 0, number: int = 0) -> str:
    """The uid of an attempt of the only job, once it was started."""

    async def found() -> str | None:
        suffix = f"/{index}:{number}"
        return next((r.attempt_uid for r in cluster.engine.launched if r.env["IRIS_TASK_ID"].endswith(suffix)), None)

    uid = await until(found)
    assert uid is not None
    return uid


async def test_every_try_is_kept_with_its_end_and_its_log_on_both_sides(pair: Pair) -> None:
    here = await pair.hub.client.submit(gpu_job(max_retries_failure=2))
    there = here.replace("/train", "/hub.train")
    for number, code in enumerate((3, 4, 0)):
        uid = await attempt_of(pair.lab, number=number)
        pair.lab.engine.write(uid, f"try {number}\n".encode())
        pair.lab.engine.finish(uid, code)
    job = await seen(pair.hub, here, SUCCEEDED)
    assert (job.failure_count, job.exit_code) == (2, 0)
    for cluster, job_id in ((pair.lab, there), (pair.hub, here)):
        (task,) = (await cluster.client.tasks(job_id)).tasks
        assert [(one.attempt_id, one.state, one.exit_code) for one in task.attempts] == [
            (0, TASK_FAILED, 3), (1, TASK_FAILED, 4), (2, TASK_SUCCEEDED, 0),
        ]  # fmt: skip
        assert task.current_attempt_id == 2
        for number in range(3):
            batches = [batch async for batch in cluster.client.logs(f"{job_id}/0", attempt_id=number)]
            assert [line.data for batch in batches for line in batch.lines] == [f"try {number}\n".encode()]


async def test_the_budget_is_each_tasks_own(world: World) -> None:
    lab = await world.add("lab", h100=8)
    job_id = await lab.client.submit(gpu_job(replicas=2, max_retries_failure=1))
    for index in range(2):
        lab.engine.finish(await attempt_of(lab, index), 3)
    for index in range(2):
        lab.engine.finish(await attempt_of(lab, index, 1))
    job = await seen(lab, job_id, SUCCEEDED)
    assert job.failure_count == 2


async def test_a_task_out_of_budget_fails_the_job_and_stops_the_rest(world: World) -> None:
    lab = await world.add("lab", h100=8)
    job_id = await lab.client.submit(gpu_job(replicas=2, max_retries_failure=1))
    lab.engine.finish(await attempt_of(lab, 1), 3)
    lab.engine.finish(await attempt_of(lab, 1, 1), 4)
    job = await seen(lab, job_id, FAILED)
    assert (job.exit_code, job.error) == (4, "task 1 exited with code 4")
    assert [task.state for task in (await lab.client.tasks(job_id)).tasks] == [TASK_KILLED, TASK_FAILED]


@pytest.mark.parametrize(("allowed", "state"), [(1, FAILED), (2, SUCCEEDED)])
async def test_a_job_survives_as_many_failed_tasks_as_it_allows(
    world: World, allowed: int, state: job_pb2.JobState
) -> None:
    lab = await world.add("lab", h100=8)
    job_id = await lab.client.submit(gpu_job(replicas=3, max_task_failures=allowed))
    uids = [await attempt_of(lab, index) for index in range(3)]
    await seen(lab, job_id, RUNNING)
    lab.engine.finish(uids[0], 3)
    lab.engine.finish(uids[1], 4)
    if allowed == 2:
        await until(lambda: _counted(lab, job_id, "FAILED", 2))
        lab.engine.finish(uids[2])
    job = await seen(lab, job_id, state)
    assert job.exit_code == (3 if state == FAILED else 0)
    assert lab.engine.kills == ([] if allowed == 2 else [uids[2]])


async def test_a_preempted_task_is_tried_again_from_another_budget_than_a_failed_one(world: World) -> None:
    lab = await world.add("lab", h100=8)
    job_id = await lab.client.submit(gpu_job(max_retries_preemption=1))
    lab.engine.end(await attempt_of(lab), AttemptEnd(EndKind.PREEMPTED, message="was preempted"))
    uid = await attempt_of(lab, number=1)
    job = await seen(lab, job_id, RUNNING)
    assert (job.failure_count, job.preemption_count) == (0, 1)
    lab.engine.finish(uid, 3)
    await seen(lab, job_id, FAILED)


async def test_a_job_that_waits_for_its_next_try_says_so_and_can_be_cancelled(world: World) -> None:
    lab = await world.add("lab", h100=8)
    job_id = await lab.client.submit(gpu_job(max_retries_failure=1))
    lab.engine.finish(await attempt_of(lab), 3)
    await seen(lab, job_id, PENDING, reason="task 0: attempt 0 exited with code 3; the next follows within 1 s")
    (task,) = (await lab.client.tasks(job_id)).tasks
    assert task.pending_reason == "attempt 0 exited with code 3; the next follows within 1 s"
    await lab.client.cancel(job_id)
    assert (await job_of(lab, job_id)).state == job_pb2.JOB_STATE_KILLED
    assert len(lab.engine.launched) == 1


async def _counted(cluster: Cluster, job_id: str, state: str, count: int) -> bool:
    return (await job_of(cluster, job_id)).task_state_counts.get(state, 0) == count


class Chance:
    """Always the same."""

    def token(self) -> str:
        self._made = getattr(self, "_made", 0) + 1
        return f"attempt-{self._made}"

    def jitter(self) -> float:
        return 0.0


LINK = TaskLink("http://127.0.0.1:1", lambda uid: "token", Path)
CHANCE = Chance()


def place(tx: Tx, now_ms: int) -> Placing:
    room = Place(BackendSummary("p", "p", "local"), (NodeFree("n", 8_000, 2**40),))
    return place_waiting(tx, [room], Terms(now_ms, CHANCE, LINK, 10**12))


def test_between_two_tries_is_a_wait_that_doubles_up_to_a_minute(tmp_path: Path) -> None:
    """By a clock of the test's own."""
    tx = connect_sqlite(tmp_path / "c.db", NOON, set())
    migrate(tx, load_migrations(), NOON.now_ms())
    job = local_job()
    insert_job(tx, replace(job, spec=replace(job.spec, max_retries_failure=9)))
    now, waits = 10_000, []
    for _ in range(9):
        (launch,) = place(tx, now).launches
        end = Ended(launch.request.attempt_uid, AttemptEnd(EndKind.EXITED, 3), now, now)
        apply_observations(tx, [end], now, CHANCE)
        pass_after = place(tx, now)
        assert pass_after.launches == ()
        assert pass_after.next_ms is not None
        assert place(tx, pass_after.next_ms - 1).launches == ()
        waits.append(pass_after.next_ms - now)
        now = pass_after.next_ms
    tx.close()
    assert waits == [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]
