"""Gangs on a real controller: here, over a handoff, and over a crash between placing and starting."""

from iris_fed.backends.base import AttemptEnd, EndKind, LaunchRequest
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2
from iris_fed.store.check import check_database
from iris_fed.store.opening import DATABASE_NAME
from tests.federation.world import (
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    Cluster,
    Pair,
    World,
    cpu_job,
    gpu_job,
    job_of,
    seen,
    started,
    until,
)

TASK_FAILED, TASK_COSCHED = job_pb2.TASK_STATE_FAILED, job_pb2.TASK_STATE_COSCHED_FAILED
TASK_SUCCEEDED, TASK_KILLED = job_pb2.TASK_STATE_SUCCEEDED, job_pb2.TASK_STATE_KILLED
TOGETHER = job_pb2.CoschedulingConfig(group_by="node")


def gang(name: str = "train", *, replicas: int = 2, count: int = 4, **fields: object) -> Controller.LaunchJobRequest:
    return gpu_job(name, replicas=replicas, count=count, coscheduling=TOGETHER, **fields)


def launches(cluster: Cluster, job_id: str) -> list[LaunchRequest]:
    return [r for r in cluster.engine.launched if r.env["IRIS_JOB_ID"] == job_id]


async def rounds(cluster: Cluster, job_id: str, count: int) -> list[str]:
    """Uids of all attempts, by index, once `count` were started."""

    async def enough() -> list[str] | None:
        found = launches(cluster, job_id)
        return [r.attempt_uid for r in found] if len(found) >= count else None

    uids = await until(enough)
    assert uids is not None
    return uids


async def attempts(cluster: Cluster, job_id: str) -> list[list[job_pb2.TaskState]]:
    """The states of all attempts, by task."""
    return [[attempt.state for attempt in task.attempts] for task in (await cluster.client.tasks(job_id)).tasks]


def sound(*clusters: Cluster) -> None:
    for cluster in clusters:
        assert check_database(cluster.state_dir / DATABASE_NAME) == []


async def test_a_gang_starts_only_when_all_find_room_and_smaller_jobs_go_on_meanwhile(world: World) -> None:
    lab = await world.add("lab", h100=8)
    first = await lab.client.submit(gpu_job("first", count=4))
    await seen(lab, first, RUNNING)
    together = await lab.client.submit(gang())
    job = await seen(lab, together, PENDING, reason="waiting for room for all 2 replicas at once; 1 would fit now")
    assert job.task_state_counts == {"PENDING": 2}
    small = await lab.client.submit(gpu_job("small", count=1))
    await seen(lab, small, RUNNING)
    assert launches(lab, together) == []
    for job_id in (first, small):
        lab.engine.finish(launches(lab, job_id)[0].attempt_uid)
    await rounds(lab, together, 2)
    await seen(lab, together, RUNNING)
    assert (await job_of(lab, together)).task_state_counts == {"RUNNING": 2}
    sound(lab)


async def test_members_are_told_of_each_other_as_they_really_are(world: World) -> None:
    lab = await world.add("lab", h100=8)
    job_id = await lab.client.submit(gang(replicas=3, count=1, ports=["rdzv", "http-2"]))
    await rounds(lab, job_id, 3)
    await seen(lab, job_id, RUNNING)
    tasks = (await lab.client.tasks(job_id)).tasks
    expected = {
        "IRIS_GANG_ADDRESSES": ",".join(task.worker_address for task in tasks),
        "IRIS_GANG_PORTS_RDZV": ",".join(str(task.ports["rdzv"]) for task in tasks),
        "IRIS_GANG_PORTS_HTTP_2": ",".join(str(task.ports["http-2"]) for task in tasks),
    }
    assert len({port for task in tasks for port in task.ports.values()}) == 6
    for request in launches(lab, job_id):
        assert {name: request.env[name] for name in expected} == expected


async def test_a_single_job_knows_of_no_gang(world: World) -> None:
    lab = await world.add("lab", h100=8)
    await lab.client.submit(gpu_job(ports=["rdzv"]))
    await started(lab)
    assert [name for name in lab.engine.launched[0].env if "GANG" in name] == []


async def test_a_crashed_member_ends_the_round_and_all_start_again_together_over_a_handoff(pair: Pair) -> None:
    here = await pair.hub.client.submit(gang(max_retries_failure=1))
    there = here.replace("/train", "/hub.train")
    first, second = await rounds(pair.lab, there, 2)
    await seen(pair.hub, here, RUNNING)
    pair.lab.engine.finish(first, 3)
    third, fourth = (await rounds(pair.lab, there, 4))[2:]
    assert pair.lab.engine.kills == [second]
    assert pair.lab.engine.attempts[first].end is not None
    for uid in (third, fourth):
        pair.lab.engine.finish(uid)
    job = await seen(pair.hub, here, SUCCEEDED)
    assert (job.failure_count, job.preemption_count) == (1, 0)
    for cluster, job_id in ((pair.lab, there), (pair.hub, here)):
        assert await attempts(cluster, job_id) == [[TASK_FAILED, TASK_SUCCEEDED], [TASK_COSCHED, TASK_SUCCEEDED]]
    sound(pair.hub, pair.lab)


async def test_a_gang_out_of_budget_fails_with_the_code_of_the_member_that_crashed(pair: Pair) -> None:
    here = await pair.hub.client.submit(gang())
    there = here.replace("/train", "/hub.train")
    _, second = await rounds(pair.lab, there, 2)
    await seen(pair.hub, here, RUNNING)
    pair.lab.engine.finish(second, 7)
    job = await seen(pair.hub, here, FAILED)
    assert (job.exit_code, job.error) == (7, "task 1 exited with code 7")
    assert await attempts(pair.hub, here) == [[TASK_KILLED], [TASK_FAILED]]
    sound(pair.hub, pair.lab)


async def test_a_preempted_member_is_charged_to_the_preemption_budget(world: World) -> None:
    lab = await world.add("lab", h100=8)
    job_id = await lab.client.submit(gang(max_retries_preemption=1))
    first, _ = await rounds(lab, job_id, 2)
    await seen(lab, job_id, RUNNING)
    lab.engine.end(first, AttemptEnd(EndKind.PREEMPTED, message="was preempted by the engine"))
    await rounds(lab, job_id, 4)
    job = await seen(lab, job_id, RUNNING)
    assert (job.failure_count, job.preemption_count) == (0, 1)
    assert (await attempts(lab, job_id))[0][0] == job_pb2.TASK_STATE_PREEMPTED


async def test_a_crash_between_placing_and_starting_leaves_no_half_started_gang(world: World) -> None:
    """The engine takes one launch of three, then the controller is gone."""
    lab = await world.add("lab", h100=8)
    engine = lab.engine

    def stop_after_one(request: LaunchRequest) -> AttemptEnd | None:
        engine.unavailable = True
        return None

    engine.auto = stop_after_one
    job_id = await lab.client.submit(gang(replicas=3, count=2))
    (first,) = await rounds(lab, job_id, 1)
    await lab.crash()
    engine.auto = lambda request: None
    await lab.start()
    again = (await rounds(lab, job_id, 4))[1:]
    assert engine.kills == [first]
    await seen(lab, job_id, RUNNING)
    alive = {uid for uid, attempt in engine.attempts.items() if attempt.end is None}
    assert alive == set(again)
    states = await attempts(lab, job_id)
    assert [len(task) for task in states] == [2, 2, 2]
    job = await job_of(lab, job_id)
    assert (job.failure_count, job.preemption_count) == (0, 0)
    together = {r.env["IRIS_GANG_ADDRESSES"] for r in launches(lab, job_id)[1:]}
    assert together == {"127.0.0.1,127.0.0.1,127.0.0.1"}
    sound(lab)


async def test_an_engine_that_is_away_for_a_while_starts_the_whole_gang_when_it_is_back(world: World) -> None:
    lab = await world.add("lab", h100=8)
    engine = lab.engine

    def away(request: LaunchRequest) -> AttemptEnd | None:
        engine.unavailable = len(engine.launched) == 1
        return None

    engine.auto = away
    job_id = await lab.client.submit(gang(replicas=3, count=2))
    await rounds(lab, job_id, 1)
    engine.unavailable = False
    await rounds(lab, job_id, 3)
    await seen(lab, job_id, RUNNING)
    assert [len(task) for task in await attempts(lab, job_id)] == [1, 1, 1]
    assert {r.env["IRIS_GANG_ADDRESSES"] for r in launches(lab, job_id)} == {"127.0.0.1,127.0.0.1,127.0.0.1"}
    assert engine.kills == []


async def test_a_gang_of_no_size_that_could_fit_does_not_stop_others(world: World) -> None:
    lab = await world.add("lab", h100=8)
    too_large = await lab.client.submit(gang(replicas=3, count=4))
    await seen(lab, too_large, PENDING, reason="waiting for room for all 3 replicas at once; 2 would fit now")
    await seen(lab, await lab.client.submit(cpu_job()), RUNNING)
