"""Only the requester: what one cluster handed off is no other cluster's business, nor can anybody pass for it."""

from collections.abc import Awaitable, Callable

import pytest
from connectrpc.code import Code
from connectrpc.errors import ConnectError

from iris_fed.errors import PermissionDenied
from iris_fed.rpc.connect_client import Channel
from iris_fed.rpc.credentials import Credentials
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.irisfed import cluster_pb2
from iris_fed.rpc.gen.job import job_pb2
from tests.federation.world import (
    RUNNING,
    Cluster,
    Pair,
    World,
    as_peer,
    gpu_job,
    handoff,
    job_of,
    seen,
    started,
)


@pytest.fixture
async def rival(world: World) -> tuple[Pair, Cluster, Channel]:
    """A hub and its lab, and another cluster that the lab trusts just as much."""
    pair = await world.pair(lab={"trusts": {"hub": ["*"], "rival": ["*"]}})
    cluster = await world.add("rival", start=False)
    return pair, cluster, as_peer(cluster, pair.lab)


async def refusal(call: Awaitable[object]) -> Code:
    with pytest.raises(ConnectError) as caught:
        await call
    assert caught.value.code not in (Code.INTERNAL, Code.UNKNOWN)
    return caught.value.code


async def handed(pair: Pair) -> tuple[str, str]:
    """A running job of the hub: its id on the lab, and its nonce."""
    job_id = await pair.hub.client.submit(gpu_job())
    await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    (handle,) = await pair.lab.rows("SELECT job_id, nonce FROM federated_jobs")
    return handle["job_id"], handle["nonce"]


async def test_another_trusted_cluster_cannot_see_a_job_that_is_not_its_own(
    rival: tuple[Pair, Cluster, Channel],
) -> None:
    pair, _, channel = rival
    job_id, _ = await handed(pair)
    answer = await channel.controller.federation_sync(Controller.FederationSyncRequest(requester_id="rival"))
    assert (answer.cursor_stale, list(answer.deltas)) == (True, [])
    tasks = channel.controller.list_tasks(Controller.ListTasksRequest(job_id=job_id))
    assert await refusal(tasks) is Code.NOT_FOUND
    task = channel.controller.get_task_status(Controller.GetTaskStatusRequest(task_id=f"{job_id}/0"))
    assert await refusal(task) is Code.NOT_FOUND
    assert await refusal(anext(channel.streams.read_logs(cluster_pb2.ReadLogsRequest(id=job_id)))) is Code.NOT_FOUND
    events = channel.cluster.list_job_events(cluster_pb2.ListJobEventsRequest(job_id=job_id))
    assert await refusal(events) is Code.NOT_FOUND
    foreign = channel.controller.federation_sync(Controller.FederationSyncRequest(requester_id="hub"))
    assert await refusal(foreign) is Code.PERMISSION_DENIED


async def test_another_trusted_cluster_cannot_cancel_a_job_that_is_not_its_own(
    rival: tuple[Pair, Cluster, Channel],
) -> None:
    pair, _, channel = rival
    job_id, nonce = await handed(pair)
    bare = channel.controller.terminate_job(Controller.TerminateJobRequest(job_id=job_id))
    assert await refusal(bare) is Code.NOT_FOUND
    # By nonce it fences an incarnation of its own that may arrive yet; the hub's is another one.
    await channel.controller.terminate_job(Controller.TerminateJobRequest(job_id=job_id, handoff_nonce=nonce))
    assert (await job_of(pair.lab, job_id)).state == RUNNING
    assert pair.lab.engine.kills == []


async def test_another_trusted_cluster_cannot_take_the_name_of_a_job_that_is_not_its_own(
    rival: tuple[Pair, Cluster, Channel],
) -> None:
    pair, _, channel = rival
    job_id, nonce = await handed(pair)
    for name in (job_id, "/alice/hub.other"):
        request = handoff(name, "rival", nonce)
        assert await refusal(channel.controller.launch_job(request)) in (Code.INVALID_ARGUMENT, Code.ALREADY_EXISTS)
    request = handoff(job_id, "rival", nonce)
    request.existing_job_policy = job_pb2.EXISTING_JOB_POLICY_RECREATE
    assert await refusal(channel.controller.launch_job(request)) in (Code.INVALID_ARGUMENT, Code.ALREADY_EXISTS)
    assert (await job_of(pair.lab, job_id)).state == RUNNING


async def test_a_handoff_under_another_clusters_name_is_denied(rival: tuple[Pair, Cluster, Channel]) -> None:
    pair, _, channel = rival
    forged = channel.controller.launch_job(handoff("/alice/hub.forged", "hub"))
    assert await refusal(forged) is Code.PERMISSION_DENIED
    assert await pair.lab.rows("SELECT 1 FROM jobs") == []


async def test_a_user_who_fills_in_a_handoff_is_denied(pair: Pair) -> None:
    with pytest.raises(PermissionDenied, match=r"federation\.requester_id"):
        await pair.lab.client.submit(handoff("/alice/hub.forged", "hub"))


async def test_a_federation_token_opens_none_of_the_users_methods(pair: Pair) -> None:
    job_id, _ = await handed(pair)
    calls = as_peer(pair.hub, pair.lab)
    attempts: list[Callable[[], Awaitable[object]]] = [
        lambda: calls.controller.get_job_status(Controller.GetJobStatusRequest(job_id=job_id)),
        lambda: calls.controller.get_job_state(Controller.GetJobStateRequest(job_ids=[job_id])),
        lambda: calls.controller.list_jobs(Controller.ListJobsRequest()),
        lambda: calls.controller.list_peers(Controller.ListPeersRequest()),
        lambda: calls.controller.list_users(Controller.ListUsersRequest()),
        lambda: calls.cluster.check_peer(cluster_pb2.CheckPeerRequest(peer="hub")),
    ]
    assert [await refusal(attempt()) for attempt in attempts] == [Code.PERMISSION_DENIED] * len(attempts)


async def test_a_user_cannot_ask_for_what_is_told_to_clusters(pair: Pair) -> None:
    shown = Credentials(lambda: pair.lab.running.admin_token)
    transport = pair.lab.transport()
    channel = Channel(pair.lab.url, credentials=shown, transport=transport)
    call = channel.controller.federation_sync(Controller.FederationSyncRequest(requester_id="hub"))
    assert await refusal(call) is Code.PERMISSION_DENIED


async def test_a_cluster_may_only_hand_off_and_not_submit(pair: Pair) -> None:
    calls = as_peer(pair.hub, pair.lab)
    assert await refusal(calls.controller.launch_job(gpu_job("/alice/hub.plain"))) is Code.INVALID_ARGUMENT


async def test_a_token_of_an_untrusted_cluster_or_for_another_one_is_no_credential(pair: Pair, world: World) -> None:
    stranger = await world.add("stranger", start=False)
    sync = Controller.FederationSyncRequest(requester_id="stranger")
    assert await refusal(as_peer(stranger, pair.lab).controller.federation_sync(sync)) is Code.UNAUTHENTICATED
    elsewhere = as_peer(pair.hub, pair.lab, claimed_target="elsewhere")
    own = Controller.FederationSyncRequest(requester_id="hub")
    assert await refusal(elsewhere.controller.federation_sync(own)) is Code.UNAUTHENTICATED


async def test_a_local_job_cannot_take_a_name_that_is_kept_for_a_requester(pair: Pair) -> None:
    shown = Credentials(lambda: pair.lab.running.admin_token)
    channel = Channel(pair.lab.url, credentials=shown, transport=pair.lab.transport())
    assert await refusal(channel.controller.launch_job(gpu_job("hub.mine"))) is Code.INVALID_ARGUMENT


async def test_a_job_of_this_cluster_is_not_replaced_by_a_handoff_of_its_name(pair: Pair) -> None:
    job_id = await pair.lab.client.submit(gpu_job("mine"))
    await started(pair.lab)
    calls = as_peer(pair.hub, pair.lab)
    assert await refusal(calls.controller.launch_job(handoff(job_id, "hub"))) is Code.ALREADY_EXISTS
    await started(pair.lab)
