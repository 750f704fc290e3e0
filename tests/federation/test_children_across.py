"""Children of a root that was handed off: they run on the peer, and its parent's cluster shows them."""

import asyncio

import pytest
from connectrpc.errors import ConnectError

from iris_fed.errors import (
    FailedPrecondition,
    InvalidArgument,
)
from iris_fed.rpc.connect_client import Channel
from iris_fed.rpc.credentials import Credentials
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2
from tests.federation.test_children import attempt_of, client_of, finish, in_task, running_root, sound, truth
from tests.federation.world import (
    FAILED,
    KILLED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    WORKER_FAILED,
    Cluster,
    Pair,
    cpu_job,
    gpu_job,
    handoff,
    in_contact,
    job_of,
    pinned,
    seen,
    until,
)

RECREATE = job_pb2.EXISTING_JOB_POLICY_RECREATE


@pytest.fixture
async def root(pair: Pair) -> tuple[str, str]:
    """A root that was handed off and runs: its id on the hub and on the lab."""
    here = await pair.hub.client.submit(gpu_job())
    await seen(pair.hub, here, RUNNING)
    return here, here.replace("/train", "/hub.train")


class TestOnAPeer:
    async def test_children_of_a_received_root_run_there_and_are_mirrored_with_tasks_and_ends(
        self, pair: Pair, root: tuple[str, str]
    ) -> None:
        here, there = root
        task = await in_task(pair.lab, there)
        good, bad = await task.submit(cpu_job("good")), await task.submit(cpu_job("bad", replicas=2))
        assert good == f"{there}/good"
        deep = await (await in_task(pair.lab, good)).submit(gpu_job("deep"))
        for name in ("good", "bad", "good/deep"):
            await seen(pair.hub, f"{here}/{name}", RUNNING)
        await finish(pair.lab, deep, 0)
        await finish(pair.lab, bad, 5)
        assert (await seen(pair.hub, f"{here}/good/deep", SUCCEEDED)).exit_code == 0
        failed = await seen(pair.hub, f"{here}/bad", FAILED)
        assert (failed.exit_code, failed.cluster, failed.parent_job_id) == (5, "lab", here)
        tasks = (await pair.hub.client.tasks(f"{here}/bad")).tasks
        assert [one.state for one in tasks] == [job_pb2.TASK_STATE_FAILED, job_pb2.TASK_STATE_KILLED]
        assert tasks[0].attempts[0].exit_code == 5
        assert (await job_of(pair.hub, here)).has_children
        sound(pair.hub, pair.lab)

    async def test_a_child_that_ended_just_before_its_root_keeps_its_end(
        self, pair: Pair, root: tuple[str, str]
    ) -> None:
        here, there = root
        task = await in_task(pair.lab, there)
        child = await task.submit(cpu_job("eval"))
        deep = await (await in_task(pair.lab, child)).submit(cpu_job("deep"))
        await seen(pair.hub, f"{here}/eval/deep", RUNNING)
        # The hub hears of all the ends at once.
        pair.wire.cut()
        for job_id in (deep, child, there):
            await finish(pair.lab, job_id)
            await seen(pair.lab, job_id, SUCCEEDED)
        pair.wire.mend()
        for name in ("", "/eval", "/eval/deep"):
            await seen(pair.hub, here + name, SUCCEEDED)
        sound(pair.hub, pair.lab)

    async def test_children_end_with_their_root_on_both_sides(self, pair: Pair, root: tuple[str, str]) -> None:
        here, there = root
        child = await (await in_task(pair.lab, there)).submit(cpu_job("eval"))
        await seen(pair.hub, f"{here}/eval", RUNNING)
        await finish(pair.lab, there, 3)
        assert (await seen(pair.hub, here, FAILED)).exit_code == 3
        await seen(pair.lab, child, KILLED)
        assert "its parent" in (await seen(pair.hub, f"{here}/eval", KILLED)).error
        (task,) = (await pair.hub.client.tasks(f"{here}/eval")).tasks
        assert task.state == job_pb2.TASK_STATE_KILLED
        sound(pair.hub, pair.lab)

    async def test_a_child_may_end_and_begin_again_under_one_id(self, pair: Pair, root: tuple[str, str]) -> None:
        here, there = root
        task = await in_task(pair.lab, there)
        child = await task.submit(cpu_job("eval"))
        await finish(pair.lab, child, 3)
        await seen(pair.hub, f"{here}/eval", FAILED)
        await task.submit(cpu_job("eval"))
        await seen(pair.hub, f"{here}/eval", RUNNING)
        await until(lambda: truth(sum(r.task_id == f"{child}/0" for r in pair.lab.engine.launched) == 2))
        await finish(pair.lab, child)
        await seen(pair.hub, f"{here}/eval", SUCCEEDED)
        (mirrored,) = (await pair.hub.client.tasks(f"{here}/eval")).tasks
        assert [attempt.exit_code for attempt in mirrored.attempts] == [0]
        sound(pair.hub, pair.lab)

    async def test_a_child_that_began_again_and_ended_unseen_is_shown_as_it_is_now(
        self, pair: Pair, root: tuple[str, str]
    ) -> None:
        here, there = root
        task = await in_task(pair.lab, there)
        child = await task.submit(cpu_job("eval"))
        old_deep = await (await in_task(pair.lab, child)).submit(cpu_job("deep"))
        await seen(pair.lab, old_deep, RUNNING)
        await finish(pair.lab, child, 3)
        await seen(pair.hub, f"{here}/eval", FAILED)
        await seen(pair.lab, old_deep, KILLED)
        pair.wire.cut()
        await task.submit(cpu_job("eval"))
        await until(lambda: truth(sum(r.task_id == f"{child}/0" for r in pair.lab.engine.launched) == 2))
        await seen(pair.lab, child, RUNNING)
        deep = await client_of(pair.lab, await attempt_of(pair.lab, child)).submit(cpu_job("deep"))
        await until(lambda: truth(sum(r.task_id == f"{deep}/0" for r in pair.lab.engine.launched) == 2))
        await finish(pair.lab, deep)
        await seen(pair.lab, deep, SUCCEEDED)
        await finish(pair.lab, child)
        await seen(pair.lab, child, SUCCEEDED)
        pair.wire.mend()
        await seen(pair.hub, f"{here}/eval", SUCCEEDED)
        await seen(pair.hub, f"{here}/eval/deep", SUCCEEDED)
        sound(pair.hub, pair.lab)

    @pytest.mark.parametrize("page", [1, 2, 100])
    async def test_a_full_set_tells_the_whole_tree_in_pages_of_any_size(
        self, pair: Pair, root: tuple[str, str], page: int
    ) -> None:
        _, there = root
        task = await in_task(pair.lab, there)
        child = await task.submit(cpu_job("a"))
        await task.submit(cpu_job("b"))
        await (await in_task(pair.lab, child)).submit(cpu_job("c"))
        await pair.hub.client.submit(gpu_job("second"))
        await seen(pair.lab, there.replace("train", "second"), RUNNING)
        channel = Channel(
            pair.lab.url,
            credentials=Credentials(lambda: pair.hub.token_for("lab")),
            transport=pair.lab.transport(),
        )
        told: list[str] = []
        cursor, stale = "", []
        while True:
            request = Controller.FederationSyncRequest(requester_id="hub", cursor=cursor, max_deltas=page)
            answer = await channel.controller.federation_sync(request)
            told += [delta.job_id for delta in answer.deltas]
            stale.append(answer.cursor_stale)
            cursor = answer.next_cursor
            assert len(answer.deltas) <= page
            if not answer.more:
                break
        second = there.replace("train", "second")
        assert told == [there, f"{there}/a", f"{there}/b", f"{there}/a/c", second]
        assert stale == [True] + [False] * (len(stale) - 1)

    async def test_a_hub_that_lost_its_place_learns_of_children_by_the_full_set(
        self, pair: Pair, root: tuple[str, str]
    ) -> None:
        here, there = root
        await pair.hub.stop()
        task = await in_task(pair.lab, there)
        child = await task.submit(cpu_job("eval"))
        await (await in_task(pair.lab, child)).submit(cpu_job("deep"))
        await seen(pair.lab, f"{child}/deep", RUNNING)
        pair.hub.edit_at_rest("UPDATE federation_peers SET cursor = ''")
        await pair.hub.start()
        await seen(pair.hub, f"{here}/eval", RUNNING)
        await seen(pair.hub, f"{here}/eval/deep", RUNNING)
        sound(pair.hub, pair.lab)

    async def test_a_task_on_the_peer_may_cancel_its_own_child_there(self, pair: Pair, root: tuple[str, str]) -> None:
        here, there = root
        task = await in_task(pair.lab, there)
        child = await task.submit(cpu_job("eval"))
        await seen(pair.lab, child, RUNNING)
        await task.cancel(child)
        await seen(pair.hub, f"{here}/eval", KILLED)
        assert (await job_of(pair.hub, here)).state == RUNNING

    async def test_cancelling_the_root_here_ends_the_tree_there(self, pair: Pair, root: tuple[str, str]) -> None:
        here, there = root
        child = await (await in_task(pair.lab, there)).submit(cpu_job("eval"))
        await seen(pair.hub, f"{here}/eval", RUNNING)
        await pair.hub.client.cancel(here)
        for cluster, job_id in [(pair.hub, here), (pair.hub, f"{here}/eval"), (pair.lab, there), (pair.lab, child)]:
            await seen(cluster, job_id, KILLED)
        sound(pair.hub, pair.lab)

    async def test_cancelling_a_mirrored_child_ends_it_there_and_nothing_else(
        self, pair: Pair, root: tuple[str, str]
    ) -> None:
        here, there = root
        task = await in_task(pair.lab, there)
        child, other = await task.submit(cpu_job("eval")), await task.submit(cpu_job("other"))
        await seen(pair.hub, f"{here}/eval", RUNNING)
        await pair.hub.client.cancel(f"{here}/eval")
        await seen(pair.hub, f"{here}/eval", KILLED)
        await seen(pair.lab, child, KILLED)
        assert (await job_of(pair.lab, other)).state == RUNNING
        assert (await job_of(pair.hub, here)).state == RUNNING

    @pytest.mark.parametrize("crash", [False, True])
    async def test_the_cancel_of_a_mirrored_child_outlives_an_outage(
        self, pair: Pair, root: tuple[str, str], crash: bool
    ) -> None:
        here, there = root
        child = await (await in_task(pair.lab, there)).submit(cpu_job("eval"))
        await seen(pair.hub, f"{here}/eval", RUNNING)
        pair.wire.cut()
        await in_contact(pair.hub, reachable=False)
        await pair.hub.client.cancel(f"{here}/eval")
        if crash:
            await pair.hub.crash()
            await pair.hub.start()
        assert (await job_of(pair.hub, f"{here}/eval")).state == RUNNING
        assert (await job_of(pair.lab, child)).state == RUNNING
        pair.wire.mend()
        await seen(pair.hub, f"{here}/eval", KILLED)
        await seen(pair.lab, child, KILLED)
        assert (await job_of(pair.hub, here)).state == RUNNING

    async def test_children_of_a_root_that_the_peer_lost_end_with_it(self, pair: Pair, root: tuple[str, str]) -> None:
        here, there = root
        await (await in_task(pair.lab, there)).submit(cpu_job("eval"))
        await seen(pair.hub, f"{here}/eval", RUNNING)
        await pair.hub.stop()
        await pair.lab.stop()
        pair.lab.wipe()
        pair.hub.federation = {"lost_after_s": 0.05}
        await pair.lab.start()
        await pair.hub.start()
        assert "lost" in (await seen(pair.hub, here, WORKER_FAILED)).error
        await seen(pair.hub, f"{here}/eval", KILLED)
        sound(pair.hub, pair.lab)

    async def test_a_root_is_not_taken_again_while_children_of_the_last_still_stop(
        self, pair: Pair, root: tuple[str, str]
    ) -> None:
        here, there = root
        child = await (await in_task(pair.lab, there)).submit(cpu_job("eval"))
        await seen(pair.hub, f"{here}/eval", RUNNING)
        pair.lab.engine.holds_kills = True
        await finish(pair.lab, there)
        await seen(pair.hub, here, SUCCEEDED)
        uid = await attempt_of(pair.lab, child)
        await until(lambda: truth(uid in pair.lab.engine.kills))
        await pair.hub.client.submit(gpu_job())
        await seen(pair.hub, here, PENDING, reason="its children are still stopping")
        pair.lab.engine.holds_kills = False
        pair.lab.engine.kill(uid)
        await seen(pair.hub, here, RUNNING)
        sound(pair.hub, pair.lab)

    async def test_recreating_a_root_ends_its_children_even_while_it_waits_for_its_next_attempt(
        self, pair: Pair
    ) -> None:
        here = await pair.hub.client.submit(gpu_job(max_retries_failure=5))
        there = here.replace("/train", "/hub.train")
        child = await (await in_task(pair.lab, there)).submit(cpu_job("eval"))
        await seen(pair.hub, f"{here}/eval", RUNNING)
        blocker = await pair.lab.client.submit(gpu_job("blocker", count=8))
        await finish(pair.lab, there, 3)
        await seen(pair.lab, blocker, RUNNING)
        await seen(pair.hub, here, PENDING)
        assert (await job_of(pair.lab, child)).state == RUNNING
        await pair.hub.client.submit(gpu_job(existing_job_policy=RECREATE))
        await until(lambda: _gone(pair.lab, child))
        sound(pair.hub, pair.lab)


async def _gone(cluster: Cluster, job_id: str) -> bool:
    return job_id not in await cluster.client.job_states([job_id])


class TestAcross:
    async def test_a_child_that_would_need_a_peer_is_told_to_have_its_root_pinned(self, pair: Pair) -> None:
        _, task = await running_root(pair.hub)
        with pytest.raises(InvalidArgument, match=r"submit its root job with the cluster pinned.*--target-cluster lab"):
            await task.submit(gpu_job("eval"))
        with pytest.raises(InvalidArgument, match="only a root job can be pinned"):
            await task.submit(pinned(cpu_job("eval"), cluster="lab"))
        with pytest.raises(FailedPrecondition, match="no cluster can host"):
            await task.submit(gpu_job("eval", count=64))

    async def test_a_child_of_a_job_that_runs_elsewhere_is_submitted_there(
        self, pair: Pair, root: tuple[str, str]
    ) -> None:
        here, _ = root
        with pytest.raises(FailedPrecondition, match=f"{here} runs on lab; its children are submitted there"):
            await pair.hub.client.submit(cpu_job(f"{here}/eval"))

    async def test_a_child_is_never_handed_off_by_itself(self, pair: Pair) -> None:
        shown = Credentials(lambda: pair.hub.token_for("lab"))
        channel = Channel(pair.lab.url, credentials=shown, transport=pair.lab.transport())
        with pytest.raises(ConnectError, match="only a root job can be handed off"):
            await channel.controller.launch_job(handoff("/alice/hub.x/eval", "hub"))

    async def test_logs_of_a_mirrored_child_are_its_own_not_its_roots(self, pair: Pair, root: tuple[str, str]) -> None:
        here, there = root
        child = await (await in_task(pair.lab, there)).submit(cpu_job("eval"))
        await seen(pair.hub, f"{here}/eval", RUNNING)
        pair.lab.engine.write(await attempt_of(pair.lab, there), b"of the root\n")
        pair.lab.engine.write(await attempt_of(pair.lab, child), b"of the child\n")
        lines = [line.data async for batch in pair.hub.client.logs(f"{here}/eval") for line in batch.lines]
        assert lines == [b"of the child\n"]

    async def test_many_children_at_once_are_all_mirrored_and_leave_both_databases_sound(
        self, pair: Pair, root: tuple[str, str]
    ) -> None:
        here, there = root
        task = await in_task(pair.lab, there)
        children = await asyncio.gather(*(task.submit(cpu_job(f"c{number}")) for number in range(24)))
        await asyncio.gather(*(finish(pair.lab, child, number % 2) for number, child in enumerate(children)))
        for number in range(24):
            await seen(pair.hub, f"{here}/c{number}", FAILED if number % 2 else SUCCEEDED)
        await finish(pair.lab, there)
        await seen(pair.hub, here, SUCCEEDED)
        sound(pair.hub, pair.lab)
