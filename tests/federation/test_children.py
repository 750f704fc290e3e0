"""Child jobs: what code in a task may start and see, here and on a peer, and what its parent's cluster shows."""

from collections.abc import Awaitable, Callable

import pytest
from connectrpc.errors import ConnectError

from iris_fed.client import Client
from iris_fed.errors import (
    Aborted,
    AlreadyExists,
    FailedPrecondition,
    NotFound,
    PermissionDenied,
    Unauthenticated,
)
from iris_fed.model.observed import AttemptEnd, EndKind
from iris_fed.rpc.connect_client import Channel
from iris_fed.rpc.credentials import Credentials
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.irisfed import cluster_pb2
from iris_fed.rpc.gen.job import job_pb2
from iris_fed.store.check import check_database
from iris_fed.store.opening import DATABASE_NAME
from tests.federation.world import (
    KILLED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    Cluster,
    World,
    cpu_job,
    handoff,
    job_of,
    seen,
    until,
)

RECREATE = job_pb2.EXISTING_JOB_POLICY_RECREATE


@pytest.fixture
async def alone(world: World) -> Cluster:
    """A cluster without peers."""
    return await world.add("solo")


def sound(*clusters: Cluster) -> None:
    for cluster in clusters:
        assert check_database(cluster.state_dir / DATABASE_NAME) == []


async def attempt_of(cluster: Cluster, job_id: str, number: int = 0) -> str:
    """The uid of an attempt at task 0, once it was launched."""

    async def found() -> str | None:
        name = f"{job_id}/0:{number}"
        launched = [r.attempt_uid for r in cluster.engine.launched if r.env["IRIS_TASK_ID"] == name]
        return launched[-1] if launched else None

    uid = await until(found)
    assert uid is not None
    return uid


def token_of(cluster: Cluster, uid: str) -> str:
    return next(r.env["IRIS_TASK_TOKEN"] for r in cluster.engine.launched if r.attempt_uid == uid)


def client_of(cluster: Cluster, uid: str) -> Client:
    """What code in that attempt would use."""
    return Client(cluster.url, token=token_of(cluster, uid), transport=cluster.transport())


async def in_task(cluster: Cluster, job_id: str, number: int = 0) -> Client:
    await seen(cluster, job_id, RUNNING)
    return client_of(cluster, await attempt_of(cluster, job_id, number))


async def running_root(cluster: Cluster, name: str = "root", **fields: object) -> tuple[str, Client]:
    job_id = await cluster.client.submit(cpu_job(name, **fields))
    return job_id, await in_task(cluster, job_id)


async def finish(cluster: Cluster, job_id: str, code: int = 0, number: int = 0) -> None:
    cluster.engine.finish(await attempt_of(cluster, job_id, number), code)


class TestHere:
    async def test_a_bare_name_from_a_task_is_a_child_of_its_own_job(self, alone: Cluster) -> None:
        root, task = await running_root(alone)
        child = await task.submit(cpu_job("eval"))
        assert child == f"{root}/eval"
        grandchild = await (await in_task(alone, child)).submit(cpu_job("deep"))
        assert grandchild == f"{root}/eval/deep"
        await seen(alone, grandchild, RUNNING)
        status = await job_of(alone, child)
        assert (status.parent_job_id, status.has_children) == (root, True)
        sound(alone)

    async def test_a_child_inherits_environment_and_band_unless_it_says_otherwise(self, alone: Cluster) -> None:
        request = cpu_job("root", priority_band=job_pb2.PRIORITY_BAND_BATCH)
        request.environment.env_vars.update({"A": "root", "B": "root"})
        root = await alone.client.submit(request)
        asked = cpu_job("eval")
        asked.environment.env_vars["B"] = "child"
        child = await (await in_task(alone, root)).submit(asked)
        await attempt_of(alone, child)
        env = alone.engine.launched[-1].env
        assert (env["A"], env["B"]) == ("root", "child")
        assert (await alone.client.job(child)).request.priority_band == job_pb2.PRIORITY_BAND_BATCH
        other = cpu_job("other", priority_band=job_pb2.PRIORITY_BAND_INTERACTIVE)
        own = await (await in_task(alone, root)).submit(other)
        assert (await alone.client.job(own)).request.priority_band == job_pb2.PRIORITY_BAND_INTERACTIVE

    @pytest.mark.parametrize("policy", job_pb2.JobPreemptionPolicy.values())
    async def test_children_outlive_a_preemption_of_their_parent_unless_its_policy_ends_them(
        self, alone: Cluster, policy: job_pb2.JobPreemptionPolicy
    ) -> None:
        root, task = await running_root(alone, max_retries_preemption=1, preemption_policy=policy)
        child = await task.submit(cpu_job("eval"))
        await seen(alone, child, RUNNING)
        alone.engine.end(await attempt_of(alone, root), AttemptEnd(EndKind.PREEMPTED, message="was preempted"))
        await attempt_of(alone, root, 1)
        if policy == job_pb2.JOB_PREEMPTION_POLICY_TERMINATE_CHILDREN:
            ended = await seen(alone, child, KILLED)
            assert ended.error == f"a task of its parent {root} was preempted"
            again = await in_task(alone, root, 1)
            assert await again.submit(cpu_job("eval")) == child
        assert (await seen(alone, child, RUNNING)).state == RUNNING
        await seen(alone, root, RUNNING)

    async def test_a_token_ends_with_its_attempt(self, alone: Cluster) -> None:
        root, first = await running_root(alone, max_retries_failure=1)
        assert (await first.whoami()).role == "job"
        await finish(alone, root, 3)
        await seen(alone, root, PENDING)
        with pytest.raises(Unauthenticated, match="counts while its task runs"):
            await first.submit(cpu_job("eval"))
        await attempt_of(alone, root, 1)
        assert (await (await in_task(alone, root, 1)).submit(cpu_job("eval"))) == f"{root}/eval"
        with pytest.raises(Unauthenticated):
            await first.whoami()

    async def test_a_parent_that_ends_ends_what_is_below_it(self, alone: Cluster) -> None:
        root, task = await running_root(alone)
        child = await task.submit(cpu_job("eval"))
        grandchild = await (await in_task(alone, child)).submit(cpu_job("deep"))
        await seen(alone, grandchild, RUNNING)
        await finish(alone, root)
        for job_id in (child, grandchild):
            assert "its parent" in (await seen(alone, job_id, KILLED)).error
        assert (await job_of(alone, root)).state == SUCCEEDED
        sound(alone)

    async def test_a_parent_that_is_tried_again_keeps_its_children(self, alone: Cluster) -> None:
        root, task = await running_root(alone, max_retries_failure=1)
        child = await task.submit(cpu_job("eval"))
        await seen(alone, child, RUNNING)
        await finish(alone, root, 3)
        await attempt_of(alone, root, 1)
        assert (await job_of(alone, child)).state == RUNNING

    async def test_cancelling_a_parent_cancels_the_whole_tree(self, alone: Cluster) -> None:
        root, task = await running_root(alone)
        child = await task.submit(cpu_job("eval"))
        grandchild = await (await in_task(alone, child)).submit(cpu_job("deep"))
        await seen(alone, grandchild, RUNNING)
        other, _ = await running_root(alone, "other")
        await alone.client.cancel(root)
        for job_id in (root, child, grandchild):
            assert "cancelled by" in (await seen(alone, job_id, KILLED)).error
        assert (await job_of(alone, other)).state == RUNNING
        sound(alone)

    async def test_cancelling_a_child_leaves_its_parent_alone(self, alone: Cluster) -> None:
        root, task = await running_root(alone)
        child = await task.submit(cpu_job("eval"))
        await seen(alone, child, RUNNING)
        await task.cancel(child)
        await seen(alone, child, KILLED)
        assert (await job_of(alone, root)).state == RUNNING

    async def test_a_child_of_a_job_that_is_none_or_over_or_stopping_is_refused(self, alone: Cluster) -> None:
        root, task = await running_root(alone)
        user = root.split("/")[1]
        with pytest.raises(FailedPrecondition, match=f"no job /{user}/nobody to be a child of"):
            await alone.client.submit(cpu_job(f"/{user}/nobody/eval"))
        with pytest.raises(FailedPrecondition, match=f"no job {root}/no to be a child of"):
            await task.submit(cpu_job(f"{root}/no/deep"))
        alone.engine.holds_kills = True
        await alone.client.cancel(root)
        with pytest.raises(FailedPrecondition, match="has ended or is stopping"):
            await alone.client.submit(cpu_job(f"{root}/eval"))
        await finish(alone, root)
        await seen(alone, root, SUCCEEDED)
        with pytest.raises(FailedPrecondition, match="has ended or is stopping"):
            await alone.client.submit(cpu_job(f"{root}/eval"))

    async def test_a_finished_job_is_not_submitted_again_while_its_children_still_stop(self, alone: Cluster) -> None:
        root, task = await running_root(alone)
        child = await task.submit(cpu_job("eval"))
        await seen(alone, child, RUNNING)
        alone.engine.holds_kills = True
        await finish(alone, root)
        await seen(alone, root, SUCCEEDED)
        with pytest.raises(Aborted, match="its children are still stopping"):
            await alone.client.submit(cpu_job("root"))
        assert (await job_of(alone, child)).state == RUNNING
        uid = await attempt_of(alone, child)
        await until(lambda: truth(uid in alone.engine.kills))
        alone.engine.holds_kills = False
        alone.engine.kill(uid)
        await seen(alone, child, KILLED)
        assert await alone.client.submit(cpu_job("root")) == root
        with pytest.raises(NotFound):
            await job_of(alone, child)
        sound(alone)

    async def test_existing_job_policies_hold_for_children_too(self, alone: Cluster) -> None:
        _, task = await running_root(alone)
        child = await task.submit(cpu_job("eval"))
        await seen(alone, child, RUNNING)
        with pytest.raises(AlreadyExists):
            await task.submit(cpu_job("eval"))
        kept = cpu_job("eval", existing_job_policy=job_pb2.EXISTING_JOB_POLICY_KEEP)
        assert await task.submit(kept) == child
        first = await attempt_of(alone, child)
        assert await task.submit(cpu_job("eval", existing_job_policy=RECREATE)) == child
        await until(lambda: truth(sum(r.task_id == f"{child}/0" for r in alone.engine.launched) == 2))
        assert alone.engine.kills == [first]
        sound(alone)


ASKS: list[Callable[[Client, str], Awaitable[object]]] = [
    lambda task, job_id: task.job(job_id),
    lambda task, job_id: task.job_states([job_id]),
    lambda task, job_id: task.tasks(job_id),
    lambda task, job_id: task.task(f"{job_id}/0"),
    lambda task, job_id: task.events(job_id),
    lambda task, job_id: task.cancel(job_id),
    lambda task, job_id: anext(task.logs(job_id)),
    lambda task, job_id: anext(task.logs(f"{job_id}/0")),
    lambda task, job_id: task.submit(cpu_job(f"{job_id}/child")),
    lambda task, job_id: task.submit(cpu_job(job_id)),
]


class TestWhatATaskMayDo:
    """Everything but its own job and what is below it does not exist for a task."""

    async def test_other_jobs_are_denied_whether_they_exist_or_not(self, alone: Cluster) -> None:
        root, task = await running_root(alone)
        await running_root(alone, "other")
        for target in ("other", "roo", "root2", "nobody"):
            other = root.replace("/root", f"/{target}")
            for ask in ASKS:
                with pytest.raises(PermissionDenied):
                    await ask(task, other)
        assert len(alone.engine.launched) == 2
        assert alone.engine.kills == []

    async def test_commands_and_files_of_others_are_denied_too(self, alone: Cluster) -> None:
        root, _ = await running_root(alone)
        await running_root(alone, "other")
        uid = await attempt_of(alone, root)
        channel = channel_of(alone, token_of(alone, uid))
        for name in ("other", "nobody"):
            task_id = root.replace("/root", f"/{name}") + "/0"
            calls: list[Awaitable[object]] = [
                channel.controller.exec_in_container(
                    Controller.ExecInContainerRequest(task_id=task_id, command=["true"])
                ),
                channel.cluster.list_files(cluster_pb2.ListFilesRequest(task_id=task_id)),
                anext(channel.cluster.read_file(cluster_pb2.ReadFileRequest(task_id=task_id, path="x"))),
            ]
            for call in calls:
                with pytest.raises(ConnectError, match="a task reaches only into its own job"):
                    await call

    async def test_a_task_does_not_submit_its_own_job_again_nor_above_it(self, alone: Cluster) -> None:
        root, task = await running_root(alone)
        for name in (root, f"/{root.split('/')[1]}/sibling", "/somebody/else"):
            with pytest.raises(PermissionDenied, match="only submit below its own job"):
                await task.submit(cpu_job(name, existing_job_policy=RECREATE))

    async def test_a_task_sees_and_cancels_its_own_tree(self, alone: Cluster) -> None:
        root, task = await running_root(alone)
        child = await task.submit(cpu_job("eval"))
        await running_root(alone, "other")
        assert [job.job_id async for job in task.list_jobs()] == [child]
        assert (await task.job(root)).job.state == RUNNING
        assert set(await task.job_states([root, child])) == {root, child}
        await task.cancel(root)
        await seen(alone, child, KILLED)
        await seen(alone, root, KILLED)

    async def test_a_listing_shows_no_more_whatever_is_asked(self, alone: Cluster) -> None:
        root, task = await running_root(alone)
        child = await task.submit(cpu_job("eval"))
        await running_root(alone, "root2")
        user = root.split("/")[1]
        for query in (
            Controller.JobQuery(),
            Controller.JobQuery(job_id_prefix=root),
            Controller.JobQuery(job_id_prefix=f"{root}/"),
            Controller.JobQuery(parent_job_id=root),
            Controller.JobQuery(name_filter="o"),
        ):
            assert {job.job_id async for job in task.list_jobs(query)} <= {child}
        for prefix in (f"/{user}/", f"{root}2", "/", f"/{user}/other"):
            with pytest.raises(PermissionDenied):
                await task.jobs_page(Controller.JobQuery(job_id_prefix=prefix))

    async def test_a_task_hands_nothing_off_and_asks_nothing_in_a_clusters_name(self, alone: Cluster) -> None:
        root, task = await running_root(alone)
        with pytest.raises(PermissionDenied):
            await task.submit(handoff(f"{root}/eval", "hub"))
        channel = channel_of(alone, token_of(alone, await attempt_of(alone, root)))
        with pytest.raises(ConnectError, match="may not call FederationSync"):
            await channel.controller.federation_sync(Controller.FederationSyncRequest(requester_id="hub"))


def channel_of(cluster: Cluster, token: str) -> Channel:
    shown = Credentials(lambda: token)
    return Channel(cluster.url, credentials=shown, transport=cluster.transport())


async def truth(value: bool) -> bool:
    return value
