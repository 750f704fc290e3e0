"""What a peer prunes costs no parent a change, and starts nothing twice."""

from typing import Any

import pytest
from connectrpc.errors import ConnectError

from iris_fed.client import Client
from iris_fed.model.limits import DAY_MS, REPLAY_WINDOW_MS
from iris_fed.rpc.connect_client import Channel
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.store.changelog_prune import MAX_AGE_MS, SUPERSEDED_AFTER_MS
from iris_fed.store.check import check_database
from iris_fed.store.opening import DATABASE_NAME
from tests.federation.world import (
    FAILED,
    RUNNING,
    SUCCEEDED,
    Cluster,
    Pair,
    World,
    as_peer,
    cpu_job,
    gpu_job,
    handoff,
    job_of,
    seen,
    started,
    until,
)

OFTEN: dict[str, Any] = {"retention": {"jobs_days": 0.001, "outputs_days": 0.001, "interval_s": 0.02}}
Answer = Controller.FederationSyncResponse


@pytest.fixture
async def pruning(world: World) -> Pair:
    """A lab that prunes all the time."""
    return await world.pair(lab=OFTEN)


async def ask(channel: Channel, cursor: str, requester: str = "hub", max_deltas: int | None = 100) -> Answer:
    return await channel.controller.federation_sync(
        Controller.FederationSyncRequest(requester_id=requester, cursor=cursor, max_deltas=max_deltas)
    )


async def read_all(channel: Channel, requester: str = "hub") -> str:
    """The cursor behind all that there is."""
    return (await ask(channel, "", requester)).next_cursor


async def age_changelog(cluster: Cluster, by_ms: int) -> None:
    await cluster.execute("UPDATE federation_changelog SET time_ms = time_ms - ?", by_ms)


async def rows_left(cluster: Cluster, most: int) -> None:
    """Rows that cursors name stay, and the newest."""

    async def few() -> bool:
        (row,) = await cluster.rows("SELECT count(*) AS n FROM federation_changelog")
        return int(row["n"]) <= most

    await until(few)


async def job_is_gone(cluster: Cluster, job_id: str) -> None:
    """Its retention is over, by the clock of the row."""
    await cluster.execute("UPDATE jobs SET finished_ms = finished_ms - ? WHERE job_id = ?", 8 * DAY_MS, job_id)

    async def removed() -> bool:
        return not await cluster.rows("SELECT 1 FROM jobs WHERE job_id = ?", job_id)

    await until(removed)


def sound(*clusters: Cluster) -> None:
    for cluster in clusters:
        assert check_database(cluster.state_dir / DATABASE_NAME) == []


async def test_what_was_read_goes_and_the_feed_goes_on_without_a_full_set(pruning: Pair) -> None:
    job_id = await pruning.hub.client.submit(gpu_job())
    (uid,) = await started(pruning.lab)
    await seen(pruning.hub, job_id, RUNNING)
    await rows_left(pruning.lab, 1)
    (before,) = await pruning.hub.rows("SELECT cursor FROM federation_peers")
    assert not (await ask(as_peer(pruning.hub, pruning.lab), before["cursor"])).cursor_stale
    pruning.lab.engine.finish(uid, exit_code=3)
    assert (await seen(pruning.hub, job_id, FAILED)).exit_code == 3
    (state,) = await pruning.lab.rows("SELECT acked_seq >= pruned_seq AS fine FROM federation_requesters")
    assert state == {"fine": 1}
    sound(pruning.hub, pruning.lab)


async def test_a_parent_that_was_cut_off_for_longer_than_news_is_kept_catches_up(pruning: Pair) -> None:
    ids = [await pruning.hub.client.submit(gpu_job(f"train-{number}")) for number in range(3)]
    uids = await started(pruning.lab, 3)
    for job_id in ids:
        await seen(pruning.hub, job_id, RUNNING)
    (held,) = await pruning.hub.rows("SELECT cursor FROM federation_peers")
    pruning.wire.cut()
    for uid in uids[:2]:
        pruning.lab.engine.finish(uid, exit_code=4)
    for job_id in ids[:2]:
        await seen(pruning.lab, job_id.replace("/train", "/hub.train"), FAILED)
    await age_changelog(pruning.lab, MAX_AGE_MS + 1)
    await rows_left(pruning.lab, 3)
    assert (await ask(as_peer(pruning.hub, pruning.lab), held["cursor"])).cursor_stale
    pruning.wire.mend()
    for job_id in ids[:2]:
        assert (await seen(pruning.hub, job_id, FAILED)).exit_code == 4
    assert (await job_of(pruning.hub, ids[2])).state == RUNNING
    await started(pruning.lab, 3)
    sound(pruning.hub)


async def test_a_parent_that_was_put_back_to_an_old_cursor_reads_everything_anew(world: World) -> None:
    """Though the row which that cursor names still stands, for another cluster's sake."""
    lab: dict[str, Any] = {"trusts": {"hub": ["*"], "moon": ["*"]}} | OFTEN
    pair = await world.pair(lab=lab)
    moon = as_peer(await world.add("moon", start=False), pair.lab)
    hub = as_peer(pair.hub, pair.lab)
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    (old,) = await pair.hub.rows("SELECT cursor FROM federation_peers")
    assert await read_all(moon, "moon") == old["cursor"]
    await ask(moon, old["cursor"], "moon")
    pair.lab.engine.finish(uid, exit_code=5)
    await seen(pair.hub, job_id, FAILED)
    await pair.hub.client.submit(gpu_job("later"))
    await seen(pair.hub, job_id.replace("train", "later"), RUNNING)
    await rows_left(pair.lab, 2)
    assert not (await ask(moon, old["cursor"], "moon")).cursor_stale
    stale = await ask(hub, old["cursor"])
    assert stale.cursor_stale
    assert {delta.job_id.rpartition(".")[2] for delta in stale.deltas} == {"train", "later"}


async def test_repeated_rows_go_while_a_parent_is_away_and_it_misses_nothing(pruning: Pair) -> None:
    job_id = await pruning.hub.client.submit(gpu_job())
    (uid,) = await started(pruning.lab)
    await seen(pruning.hub, job_id, RUNNING)
    (held,) = await pruning.hub.rows("SELECT cursor FROM federation_peers")
    pruning.wire.cut()
    for number in range(5):
        await pruning.lab.execute("UPDATE jobs SET pending_reason = ?", f"word {number}")
    pruning.lab.engine.finish(uid, exit_code=6)
    await seen(pruning.lab, job_id.replace("/train", "/hub.train"), FAILED)
    await age_changelog(pruning.lab, SUPERSEDED_AFTER_MS + 1)
    await rows_left(pruning.lab, 4)
    answer = await ask(as_peer(pruning.hub, pruning.lab), held["cursor"])
    assert not answer.cursor_stale
    assert [delta.summary.state for delta in answer.deltas] == [FAILED]
    pruning.wire.mend()
    assert (await seen(pruning.hub, job_id, FAILED)).exit_code == 6


async def test_a_replay_is_acknowledged_for_the_window_after_which_nothing_is_known_and_it_has_expired(
    pruning: Pair,
) -> None:
    channel = as_peer(pruning.hub, pruning.lab)
    request = handoff("/alice/hub.train", "hub")
    (now,) = await pruning.lab.rows("SELECT now_ms() AS ms")
    request.federation.expires_ms = now["ms"] + REPLAY_WINDOW_MS // 2
    await channel.controller.launch_job(request)
    (uid,) = await started(pruning.lab)
    pruning.lab.engine.finish(uid)
    await seen(pruning.lab, "/alice/hub.train", SUCCEEDED)
    await job_is_gone(pruning.lab, "/alice/hub.train")
    assert (await channel.controller.launch_job(request)).job_id == "/alice/hub.train"
    # The hub has minted no such nonce, but it has read what is told of it.
    await pruning.lab.execute("UPDATE federated_jobs SET closed_ms = closed_ms - ?", REPLAY_WINDOW_MS)

    async def forgotten() -> bool:
        return not await pruning.lab.rows("SELECT 1 FROM federated_jobs")

    await until(forgotten)
    request.federation.expires_ms = now["ms"] - 1
    with pytest.raises(ConnectError, match="this handoff has expired"):
        await channel.controller.launch_job(request)
    await started(pruning.lab)


async def test_a_handle_whose_end_the_parent_has_not_read_outlives_the_window(pruning: Pair) -> None:
    job_id = await pruning.hub.client.submit(gpu_job())
    (uid,) = await started(pruning.lab)
    await seen(pruning.hub, job_id, RUNNING)
    pruning.wire.cut()
    pruning.lab.engine.finish(uid, exit_code=7)
    remote = job_id.replace("/train", "/hub.train")
    ended = await seen(pruning.lab, remote, FAILED)
    await pruning.lab.execute("UPDATE federated_jobs SET created_ms = 1")
    await job_is_gone(pruning.lab, remote)
    await pruning.lab.execute("UPDATE federated_jobs SET closed_ms = closed_ms - ?", 2 * REPLAY_WINDOW_MS)
    await age_changelog(pruning.lab, MAX_AGE_MS + 1)
    await rows_left(pruning.lab, 3)
    (tombstone,) = (await ask(as_peer(pruning.hub, pruning.lab), "")).deltas
    assert (tombstone.tombstone, tombstone.summary.state) == (True, FAILED)
    assert tombstone.summary.finished_at.epoch_ms == ended.finished_at.epoch_ms - 8 * DAY_MS
    pruning.wire.mend()
    assert (await seen(pruning.hub, job_id, FAILED)).exit_code == 7

    async def forgotten() -> bool:
        return not await pruning.lab.rows("SELECT 1 FROM federated_jobs")

    await until(forgotten)
    sound(pruning.hub, pruning.lab)


async def test_a_pruned_tree_leaves_the_parents_mirror_as_it_was_and_no_row_that_it_cannot_read(
    pruning: Pair,
) -> None:
    job_id = await pruning.hub.client.submit(gpu_job())
    (uid,) = await started(pruning.lab)
    await seen(pruning.hub, job_id, RUNNING)
    token = pruning.lab.engine.launched[0].env["IRIS_TASK_TOKEN"]
    task = Client(pruning.lab.url, token=token, transport=pruning.lab.transport())
    remote = job_id.replace("/train", "/hub.train")
    child = await task.submit(cpu_job(f"{remote}/eval"))
    _, child_uid = await started(pruning.lab, 2)
    pruning.lab.engine.finish(child_uid, exit_code=9)
    assert (await seen(pruning.hub, f"{job_id}/eval", FAILED)).exit_code == 9
    pruning.lab.engine.finish(uid)
    await seen(pruning.hub, job_id, SUCCEEDED)
    channel = as_peer(pruning.hub, pruning.lab)
    (before,) = await pruning.hub.rows("SELECT cursor FROM federation_peers")
    pruning.wire.cut()
    await job_is_gone(pruning.lab, remote)
    told = {delta.job_id: delta for delta in (await ask(channel, before["cursor"])).deltas}
    assert (told[child].tombstone, told[child].HasField("summary")) == (True, False)
    assert (told[remote].tombstone, told[remote].summary.state) == (True, SUCCEEDED)
    pruning.wire.mend()

    async def passed() -> bool:
        (now,) = await pruning.hub.rows("SELECT cursor FROM federation_peers")
        return bool(now["cursor"] != before["cursor"])

    await until(passed)
    assert (await job_of(pruning.hub, job_id)).state == SUCCEEDED
    assert (await job_of(pruning.hub, f"{job_id}/eval")).exit_code == 9


async def test_a_parent_without_our_extensions_gets_the_whole_set_again_when_its_cursor_is_too_old(
    world: World,
) -> None:
    lab = await world.add("lab", h100=8, trusts={"iris": ["*"]}, **OFTEN)
    channel = as_peer(await world.add("iris", start=False), lab)
    await channel.controller.launch_job(handoff("/alice/iris.one", "iris", "n1"))
    await channel.controller.launch_job(handoff("/alice/iris.two", "iris", "n2"))
    one, _ = await started(lab, 2)
    await seen(lab, "/alice/iris.one", RUNNING)
    await seen(lab, "/alice/iris.two", RUNNING)
    first = await ask(channel, "", "iris", None)
    lab.engine.finish(one)
    await seen(lab, "/alice/iris.one", SUCCEEDED)
    then = await ask(channel, first.next_cursor, "iris", None)
    assert [(delta.job_id, delta.summary.state) for delta in then.deltas] == [("/alice/iris.one", SUCCEEDED)]
    assert (await ask(channel, then.next_cursor, "iris", None)).deltas == []
    await rows_left(lab, 1)
    assert (await ask(channel, then.next_cursor, "iris", None)).deltas == []
    again = await ask(channel, first.next_cursor, "iris", None)
    assert (again.cursor_stale, again.more) == (True, False)
    assert [delta.job_id for delta in again.deltas] == ["/alice/iris.one", "/alice/iris.two"]


async def test_rows_of_a_cluster_that_is_not_trusted_any_more_go_with_age(world: World) -> None:
    pair = await world.pair(lab=OFTEN)
    job_id = await pair.hub.client.submit(gpu_job())
    await seen(pair.hub, job_id, RUNNING)
    await pair.lab.stop()
    pair.wire.cut()
    pair.lab.trusts = {}
    await pair.lab.start()
    for number in range(3):
        await pair.lab.execute("UPDATE jobs SET pending_reason = ?", f"word {number}")
    await age_changelog(pair.lab, MAX_AGE_MS + 1)
    await rows_left(pair.lab, 2)


async def test_a_restart_of_the_peer_costs_no_full_set(pruning: Pair) -> None:
    job_id = await pruning.hub.client.submit(gpu_job())
    (uid,) = await started(pruning.lab)
    await seen(pruning.hub, job_id, RUNNING)
    await rows_left(pruning.lab, 1)
    await pruning.lab.stop()
    (held,) = await pruning.hub.rows("SELECT cursor FROM federation_peers")
    await pruning.lab.start()
    assert not (await ask(as_peer(pruning.hub, pruning.lab), held["cursor"])).cursor_stale
    pruning.lab.engine.finish(uid)
    await seen(pruning.hub, job_id, SUCCEEDED)


async def test_a_cluster_that_nobody_hands_jobs_to_remembers_no_requester(world: World) -> None:
    here = await world.add("here", **OFTEN)
    job_id = await here.client.submit(cpu_job())
    (uid,) = await started(here)
    here.engine.finish(uid)
    await seen(here, job_id, SUCCEEDED)
    await here.execute("UPDATE jobs SET finished_ms = finished_ms - ?", 90_000)

    async def removed() -> bool:
        return not await here.rows("SELECT 1 FROM jobs")

    await until(removed)
    assert await here.rows("SELECT * FROM federation_requesters") == []
