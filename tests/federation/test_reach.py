"""Commands and files of a task, asked of the cluster where the job was submitted."""

from collections.abc import Sequence

import pytest
from connectrpc.errors import ConnectError

from iris_fed.auth.identity import Identity, Role
from iris_fed.clock import SystemClock, SystemEntropy
from iris_fed.controller.reach import Reach
from iris_fed.errors import PermissionDenied
from iris_fed.model.files import ExecResult
from iris_fed.rpc.connect_client import Channel
from iris_fed.rpc.credentials import Credentials
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.irisfed import cluster_pb2
from iris_fed.rpc.gen.job import job_pb2
from iris_fed.signals import JobSignals
from iris_fed.store.runtime import Runtime
from tests.federation.test_children import attempt_of, in_task
from tests.federation.world import (
    PENDING,
    RUNNING,
    SUCCEEDED,
    Cluster,
    Pair,
    World,
    as_peer,
    cpu_job,
    gpu_job,
    in_contact,
    seen,
)

FILES = {"out/model.bin": bytes(range(256)) * 4_000, "out/metrics.json": b"{}", "note": b"hello"}


def channel(cluster: Cluster) -> Channel:
    """An administrator's."""
    shown = Credentials(lambda: cluster.running.admin_token)
    return Channel(cluster.url, credentials=shown, transport=cluster.transport())


async def run(cluster: Cluster, task: str, *argv: str, timeout_s: int = 0) -> Controller.ExecInContainerResponse:
    request = Controller.ExecInContainerRequest(task_id=task, command=argv, timeout_seconds=timeout_s)
    return await channel(cluster).controller.exec_in_container(request)


async def listed(cluster: Cluster, task: str, path: str = "") -> list[tuple[str, bool, int]]:
    answer = await channel(cluster).cluster.list_files(cluster_pb2.ListFilesRequest(task_id=task, path=path))
    return [(entry.path, entry.is_folder, entry.size) for entry in answer.entries]


async def read(cluster: Cluster, task: str, path: str, offset: int = 0) -> list[tuple[bytes, int]]:
    request = cluster_pb2.ReadFileRequest(task_id=task, path=path, offset=offset)
    return [(chunk.data, chunk.size) async for chunk in channel(cluster).cluster.read_file(request)]


async def remote(pair: Pair) -> tuple[str, str]:
    """A job with files that was handed off and runs: its id here and there."""
    request = gpu_job()
    request.entrypoint.workdir_files.update(FILES)
    here = await pair.hub.client.submit(request)
    await seen(pair.hub, here, RUNNING)
    return here, here.replace("/train", "/hub.train")


async def local(world: World) -> tuple[Cluster, str]:
    solo = await world.add("solo")
    request = cpu_job()
    request.entrypoint.workdir_files.update(FILES)
    job_id = await solo.client.submit(request)
    await seen(solo, job_id, RUNNING)
    return solo, job_id


@pytest.mark.parametrize("across", [False, True])
async def test_a_command_runs_where_the_task_runs_and_its_answer_comes_back(world: World, across: bool) -> None:
    asked: list[tuple[str, Sequence[str]]] = []

    def answer(uid: str, argv: Sequence[str]) -> ExecResult:
        asked.append((uid, list(argv)))
        return ExecResult(7, b"out \xff\n", b"err\n", truncated=True)

    if across:
        pair = await world.pair()
        cluster, runs_on = pair.hub, pair.lab
        job_id, there = await remote(pair)
    else:
        cluster, job_id = await local(world)
        runs_on, there = cluster, job_id
    runs_on.engine.on_exec = answer
    result = await run(cluster, f"{job_id}/0", "nvidia-smi", "-L")
    assert (result.exit_code, result.stderr, result.error) == (7, "err\n", "")
    assert result.stdout.startswith("out \N{REPLACEMENT CHARACTER}\n")
    assert "cut here" in result.stdout
    assert asked == [(await attempt_of(runs_on, there), ["nvidia-smi", "-L"])]


@pytest.mark.parametrize("across", [False, True])
async def test_a_command_that_did_not_end_in_time_has_no_exit_code_but_words(world: World, across: bool) -> None:
    if across:
        pair = await world.pair()
        cluster, runs_on = pair.hub, pair.lab
        job_id, _ = await remote(pair)
    else:
        cluster, job_id = await local(world)
        runs_on = cluster
    runs_on.engine.on_exec = lambda uid, argv: ExecResult(None, b"so far", b"")
    result = await run(cluster, f"{job_id}/0", "sleep", "1000", timeout_s=1)
    assert not result.HasField("exit_code")
    assert (result.stdout, "did not end in time" in result.error) == ("so far", True)


async def test_commands_and_files_of_a_mirrored_child_are_its_own_not_its_roots(pair: Pair) -> None:
    here, there = await remote(pair)
    request = cpu_job("eval")
    request.entrypoint.workdir_files["child-only"] = b"x"
    child = await (await in_task(pair.lab, there)).submit(request)
    await seen(pair.hub, f"{here}/eval", RUNNING)
    asked: list[str] = []

    def answer(uid: str, argv: Sequence[str]) -> ExecResult:
        asked.append(uid)
        return ExecResult(0, b"", b"")

    pair.lab.engine.on_exec = answer
    await run(pair.hub, f"{here}/eval/0", "true")
    assert asked == [await attempt_of(pair.lab, child)]
    assert await listed(pair.hub, f"{here}/eval/0") == [("child-only", False, 1)]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"command": []}, "command: a command is needed"),
        ({"command": ["a\0b"]}, "command"),
        ({"command": ["true"], "timeout_seconds": -1}, "timeout_seconds: must be between 0 and 600, not -1"),
        ({"command": ["true"], "timeout_seconds": 601}, "timeout_seconds: must be between 0 and 600, not 601"),
    ],
)
async def test_an_unusable_command_is_refused_by_field(world: World, fields: dict[str, object], words: str) -> None:
    solo, job_id = await local(world)
    request = Controller.ExecInContainerRequest(task_id=f"{job_id}/0", **fields)  # type: ignore[arg-type]
    with pytest.raises(ConnectError, match=words) as refused:
        await channel(solo).controller.exec_in_container(request)
    assert refused.value.code.value == "invalid_argument"


@pytest.mark.parametrize("across", [False, True])
async def test_nothing_is_run_in_a_task_that_does_not_run(world: World, across: bool) -> None:
    if across:
        pair = await world.pair()
        cluster, runs_on = pair.hub, pair.lab
        job_id, there = await remote(pair)
    else:
        cluster, job_id = await local(world)
        runs_on, there = cluster, job_id
    runs_on.engine.finish(await attempt_of(runs_on, there))
    await seen(cluster, job_id, SUCCEEDED)
    with pytest.raises(ConnectError, match="does not run, so nothing can be run in it") as refused:
        await run(cluster, f"{job_id}/0", "true")
    assert refused.value.code.value == "failed_precondition"


async def test_unknown_tasks_and_attempts_are_not_found(pair: Pair) -> None:
    here, _ = await remote(pair)
    user = here.split("/")[1]
    full = await pair.lab.client.submit(gpu_job("full", count=8))
    await seen(pair.lab, full, PENDING)
    for cluster, task, words in [
        (pair.hub, f"/{user}/nobody/0", f"there is no task /{user}/nobody/0"),
        (pair.hub, f"{here}/9", "lab: /root/train/9 has no attempt yet"),
        (pair.lab, f"{full}/0", f"{full}/0 has no attempt yet"),
    ]:
        with pytest.raises(ConnectError, match=words) as refused:
            await run(cluster, task, "true")
        assert refused.value.code.value == "not_found"
    request = cluster_pb2.ListFilesRequest(task_id=f"{here}/0", attempt_id=5)
    with pytest.raises(ConnectError, match="has no attempt 5"):
        await channel(pair.hub).cluster.list_files(request)


@pytest.mark.parametrize("across", [False, True])
async def test_files_are_listed_and_read_from_any_offset_while_it_runs_and_after(world: World, across: bool) -> None:
    if across:
        pair = await world.pair()
        cluster, runs_on = pair.hub, pair.lab
        job_id, there = await remote(pair)
    else:
        cluster, job_id = await local(world)
        runs_on, there = cluster, job_id
    task, model = f"{job_id}/0", FILES["out/model.bin"]
    for over in (False, True):
        if over:
            runs_on.engine.finish(await attempt_of(runs_on, there))
            await seen(cluster, job_id, SUCCEEDED)
        assert await listed(cluster, task) == [("note", False, 5), ("out", True, 0)]
        assert await listed(cluster, task, "out") == [
            ("out/metrics.json", False, 2),
            ("out/model.bin", False, len(model)),
        ]
        for offset in (0, 1, 300_000, len(model) - 1, len(model), len(model) + 5):
            chunks = await read(cluster, task, "out/model.bin", offset)
            assert b"".join(data for data, _ in chunks) == model[offset:]
            assert {size for _, size in chunks} == {len(model)}
            assert max(len(data) for data, _ in chunks) <= 256 * 1024


@pytest.mark.parametrize("across", [False, True])
async def test_files_that_are_not_there_are_not_found(world: World, across: bool) -> None:
    if across:
        pair = await world.pair()
        cluster = pair.hub
        job_id, _ = await remote(pair)
    else:
        cluster, job_id = await local(world)
    for ask in (listed(cluster, f"{job_id}/0", "nothing"), read(cluster, f"{job_id}/0", "nothing")):
        with pytest.raises(ConnectError, match="nothing does not exist") as refused:
            await ask
        assert refused.value.code.value == "not_found"


async def test_files_of_a_former_try_stay_its_own(world: World) -> None:
    lab = await world.add("lab", h100=8)
    request = gpu_job(max_retries_failure=1)
    request.entrypoint.workdir_files["f"] = b"x"
    job_id = await lab.client.submit(request)
    first = await attempt_of(lab, job_id)
    lab.engine.finish(first, 3)
    second = await attempt_of(lab, job_id, 1)
    await lab.running.backends["gpu"].forget(first)
    request_of = cluster_pb2.ListFilesRequest(task_id=f"{job_id}/0", attempt_id=0)
    with pytest.raises(ConnectError, match="gone with its attempt's work directory"):
        await channel(lab).cluster.list_files(request_of)
    assert await listed(lab, f"{job_id}/0") == [("f", False, 1)]
    assert second != first


async def test_a_peer_that_is_away_is_named(pair: Pair) -> None:
    here, _ = await remote(pair)
    pair.wire.cut()
    await in_contact(pair.hub, reachable=False)
    for ask in (run(pair.hub, f"{here}/0", "true"), listed(pair.hub, f"{here}/0"), read(pair.hub, f"{here}/0", "note")):
        with pytest.raises(ConnectError, match="lab, which runs the job, cannot be reached") as refused:
            await ask
        assert refused.value.code.value == "unavailable"


async def test_another_cluster_reaches_into_nothing_that_it_did_not_hand_off(world: World) -> None:
    pair = await world.pair(lab={"trusts": {"hub": ["*"], "other": ["*"]}})
    other = await world.add("other", peers=("lab",))
    _, there = await remote(pair)
    own = await pair.lab.client.submit(gpu_job("own"))
    await seen(pair.lab, own, RUNNING)
    asked: list[str] = []

    def answer(uid: str, argv: Sequence[str]) -> ExecResult:
        asked.append(uid)
        return ExecResult(0, b"", b"")

    pair.lab.engine.on_exec = answer
    for source, task in [(other, f"{there}/0"), (other, f"{own}/0"), (pair.hub, f"{own}/0")]:
        way = as_peer(source, pair.lab)
        exec_request = Controller.ExecInContainerRequest(task_id=task, command=["true"])
        for ask in (
            way.controller.exec_in_container(exec_request),
            way.cluster.list_files(cluster_pb2.ListFilesRequest(task_id=task)),
            anext(way.cluster.read_file(cluster_pb2.ReadFileRequest(task_id=task, path="note"))),
        ):
            with pytest.raises(ConnectError, match=f"there is no task {task}") as refused:
                await ask
            assert refused.value.code.value == "not_found"
    assert asked == []
    result = await as_peer(pair.hub, pair.lab).controller.exec_in_container(
        Controller.ExecInContainerRequest(task_id=f"{there}/0", command=["true"])
    )
    assert (result.exit_code, asked) == (0, [await attempt_of(pair.lab, there)])


async def test_only_who_owns_a_job_reaches_into_it(world: World) -> None:
    solo, job_id = await local(world)
    controller = solo.running
    runtime = Runtime(controller.db, SystemClock(), SystemEntropy(), JobSignals(), "solo", controller.meta.database_id)
    reach = Reach(runtime, controller.backends, controller.federation)
    user = job_id.split("/")[1]
    stranger = Identity("eve@lab", "eve", Role.USER)
    owner = Identity("owner@lab", user, Role.USER)
    assert (await reach.exec(owner, f"{job_id}/0", ["true"], 0)).exit_code == 0
    assert (await reach.list_files(owner, f"{job_id}/0", None, "")).entries
    for ask in (
        reach.exec(stranger, f"{job_id}/0", ["true"], 0),
        reach.list_files(stranger, f"{job_id}/0", None, ""),
        anext(reach.read_file(stranger, f"{job_id}/0", None, "note", 0)),
    ):
        with pytest.raises(PermissionDenied, match=f"eve@lab may not reach into {job_id}/0"):
            await ask


async def test_a_task_state_is_not_changed_by_reaching_into_it(pair: Pair) -> None:
    here, _ = await remote(pair)
    before = (await pair.hub.client.tasks(here)).tasks
    await run(pair.hub, f"{here}/0", "true")
    await read(pair.hub, f"{here}/0", "note")
    assert (await pair.hub.client.tasks(here)).tasks == before
    assert before[0].state == job_pb2.TASK_STATE_RUNNING
