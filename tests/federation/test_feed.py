"""FederationSync as a peer serves it, and what the parent makes of a peer that lost its memory."""

import sqlite3
import time

import pytest

from iris_fed.federation import changes, feed
from iris_fed.model.resources import Usage
from iris_fed.rpc.connect_client import Channel
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2
from tests.federation.world import (
    FAILED,
    KILLED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    WORKER_FAILED,
    Cluster,
    Pair,
    World,
    as_peer,
    gpu_job,
    handoff,
    in_contact,
    seen,
    started,
    until,
)

Request = Controller.FederationSyncRequest


@pytest.fixture
async def channel(pair: Pair) -> Channel:
    """To the lab, in the hub's name."""
    return as_peer(pair.hub, pair.lab)


async def ask(channel: Channel, cursor: str = "", *, max_deltas: int | None = 100) -> Controller.FederationSyncResponse:
    return await channel.controller.federation_sync(Request(requester_id="hub", cursor=cursor, max_deltas=max_deltas))


async def read_on(channel: Channel, cursor: str, *, max_deltas: int) -> tuple[list[str], str]:
    """Job ids of all pages from `cursor`, and the cursor after them."""
    told: list[str] = []
    while True:
        answer = await ask(channel, cursor, max_deltas=max_deltas)
        told += [delta.job_id for delta in answer.deltas]
        cursor = answer.next_cursor
        if not answer.more:
            return told, cursor


async def handed_off(pair: Pair, count: int) -> list[str]:
    """Ids on the peer of that many jobs, which run."""
    for number in range(count):
        await pair.hub.client.submit(gpu_job(f"train-{number}"))
    await started(pair.lab, count)
    ids = [f"/root/hub.train-{number}" for number in range(count)]
    user = pair.lab.engine.launched[0].task_id.split("/")[1]
    return [job_id.replace("/root/", f"/{user}/") for job_id in ids]


async def test_an_empty_cursor_brings_everything_in_pages_of_the_size_asked_for(pair: Pair, channel: Channel) -> None:
    ids = await handed_off(pair, 5)
    first = await ask(channel, max_deltas=2)
    second = await ask(channel, first.next_cursor, max_deltas=2)
    third = await ask(channel, second.next_cursor, max_deltas=2)
    pages = [first, second, third]
    assert [len(page.deltas) for page in pages] == [2, 2, 1]
    assert [page.cursor_stale for page in pages] == [True, False, False]
    assert [page.more for page in pages] == [True, True, False]
    assert [delta.job_id for page in pages for delta in page.deltas] == ids
    assert len({delta.handoff_nonce for page in pages for delta in page.deltas}) == 5


async def test_a_page_ends_early_when_its_jobs_have_many_tasks(
    pair: Pair, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "MAX_PAGE_TASKS", 3)
    for number in range(3):
        await seen(pair.hub, await pair.hub.client.submit(gpu_job(f"wide-{number}", replicas=2)), RUNNING)
    first = await ask(channel)
    second = await ask(channel, first.next_cursor)
    assert [(len(page.deltas), page.more) for page in (first, second)] == [(2, True), (1, False)]
    assert sum(len(delta.changed_tasks) for page in (first, second) for delta in page.deltas) == 6


async def test_what_changes_between_the_pages_of_a_full_set_is_told_in_it_or_right_after(
    pair: Pair, channel: Channel
) -> None:
    first_id, *others = await handed_off(pair, 4)
    first = await ask(channel, max_deltas=2)
    await pair.hub.client.submit(gpu_job("between"))
    uids = await started(pair.lab, 5)
    pair.lab.engine.finish(uids[0], exit_code=2)
    await seen(pair.lab, first_id, FAILED)
    rest, cursor = await read_on(channel, first.next_cursor, max_deltas=2)
    after, _ = await read_on(channel, cursor, max_deltas=2)
    between = first_id.replace("train-0", "between")
    assert {*others[1:], between} <= {*rest, *after}
    assert first_id in after


async def test_a_cancel_repeats_the_truth_in_the_feed_even_when_it_changes_nothing(
    pair: Pair, channel: Channel
) -> None:
    (job_id,) = await handed_off(pair, 1)
    (uid,) = await started(pair.lab)
    pair.lab.engine.finish(uid)
    await seen(pair.lab, job_id, SUCCEEDED)
    (told,) = (await ask(channel)).deltas
    _, cursor = await read_on(channel, "", max_deltas=100)
    for nonce in (told.handoff_nonce, "never.arrived", "never.arrived"):
        await channel.controller.terminate_job(Controller.TerminateJobRequest(job_id=job_id, handoff_nonce=nonce))
        answer = await ask(channel, cursor)
        (again,) = answer.deltas
        ended = SUCCEEDED if nonce == told.handoff_nonce else KILLED
        assert (again.handoff_nonce, again.summary.state) == (nonce, ended)
        cursor = answer.next_cursor


async def test_a_replay_repeats_the_truth_in_the_feed(pair: Pair, channel: Channel) -> None:
    request = handoff("/alice/hub.train", "hub")
    await channel.controller.launch_job(request)
    await seen(pair.lab, "/alice/hub.train", RUNNING)
    _, cursor = await read_on(channel, "", max_deltas=100)
    await channel.controller.launch_job(request)
    (again,) = (await ask(channel, cursor)).deltas
    assert (again.job_id, again.summary.state) == ("/alice/hub.train", RUNNING)


async def test_changes_come_in_pages_too_and_each_job_once(pair: Pair, channel: Channel) -> None:
    ids = await handed_off(pair, 3)
    _, cursor = await read_on(channel, "", max_deltas=100)
    for uid in await started(pair.lab, 3):
        pair.lab.engine.finish(uid, exit_code=1)
    for job_id in ids:
        await seen(pair.lab, job_id, FAILED)
    page = await ask(channel, cursor, max_deltas=2)
    assert (len(page.deltas), page.more, page.cursor_stale) == (2, True, False)
    told, last = await read_on(channel, cursor, max_deltas=2)
    assert sorted(set(told)) == ids
    assert (await ask(channel, last)).deltas == []


@pytest.mark.parametrize("mangle", ["stamp", "ahead", "nonsense", "page of another set"])
async def test_a_cursor_that_names_no_row_of_this_database_is_stale(pair: Pair, channel: Channel, mangle: str) -> None:
    await handed_off(pair, 1)
    _, cursor = await read_on(channel, "", max_deltas=100)
    sequence, _, stamp = cursor.partition(".")
    mangled = {
        "stamp": f"{sequence}.0123456789abcdef",
        "ahead": f"{int(sequence) + 1000}.{stamp}",
        "nonsense": "x" * 100,
        "page of another set": f"{sequence}.0123456789abcdef/1",
    }[mangle]
    answer = await ask(channel, mangled)
    assert answer.cursor_stale
    assert len(answer.deltas) == 1


async def test_a_parent_without_our_extensions_gets_one_row_per_id_without_fences_and_at_once(
    pair: Pair, channel: Channel
) -> None:
    ids = await handed_off(pair, 3)
    for uid in await started(pair.lab, 3):
        pair.lab.engine.finish(uid)
    again = ids[0].replace("hub.", "").split("/")[2]
    for name in (again, "train-1", "train-2"):
        await seen(pair.hub, f"/{ids[0].split('/')[1]}/{name}", job_pb2.JOB_STATE_SUCCEEDED)
    await pair.hub.client.submit(gpu_job(again))
    await started(pair.lab, 4)
    fence = Controller.TerminateJobRequest(job_id=ids[0], handoff_nonce="never.arrived")
    await channel.controller.terminate_job(fence)
    everything = await ask(channel, max_deltas=None)
    assert (everything.cursor_stale, everything.more) == (True, False)
    assert sorted(delta.job_id for delta in everything.deltas) == ids
    assert not any(delta.tombstone for delta in everything.deltas)
    # Nothing is new, and it did not ask to be held.
    assert (await ask(channel, everything.next_cursor, max_deltas=None)).deltas == []
    with_ours = await ask(channel)
    assert [delta.handoff_nonce for delta in with_ours.deltas if delta.tombstone] == ["never.arrived"]


async def test_a_pruned_job_is_told_as_it_ended_and_its_delivery_is_still_acknowledged(pair: Pair) -> None:
    pair.wire.mend()
    pair.wire.hang("FederationSync")
    pair.wire.lose_answers("LaunchJob")
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    pair.lab.engine.finish(uid, exit_code=0)
    await seen(pair.lab, job_id.replace("/train", "/hub.train"), SUCCEEDED)
    await prune(pair.lab)
    pair.wire.mend()
    pair.wire.hang("FederationSync")
    await seen(pair.hub, job_id, status="ASSIGNED")
    pair.wire.mend()
    assert (await seen(pair.hub, job_id, SUCCEEDED)).exit_code == 0
    await started(pair.lab)


async def test_a_parent_without_our_extensions_hears_nothing_of_a_pruned_incarnation_whose_name_lives_on(
    pair: Pair, channel: Channel
) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    await prune(pair.lab)
    await pair.hub.client.submit(gpu_job())
    await started(pair.lab, 2)
    everything = await ask(channel, max_deltas=None)
    assert [delta.tombstone for delta in everything.deltas] == [False]
    assert sorted(delta.tombstone for delta in (await ask(channel)).deltas) == [False, True]


async def test_the_whole_set_comes_at_once_however_large_without_our_extensions(pair: Pair, channel: Channel) -> None:
    ids = await handed_off(pair, 8)
    everything = await ask(channel, max_deltas=None)
    assert [delta.job_id for delta in everything.deltas] == ids


async def test_a_job_that_the_peer_forgot_is_missing_first_and_lost_after_the_grace(world: World) -> None:
    pair = await world.pair(hub={"federation": {"lost_after_s": 1.0}})
    job_id = await pair.hub.client.submit(gpu_job())
    await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    await forget_everything(pair.lab)
    await seen(pair.hub, job_id, RUNNING, reason="lab does not show this job any more")
    job = await seen(pair.hub, job_id, WORKER_FAILED)
    assert job.error.startswith("lost: lab accepted this job and no longer knows it")
    # Nothing is run again without a person's word.
    await started(pair.lab)


async def test_a_delivery_that_may_have_reached_the_forgotten_database_is_not_repeated(world: World) -> None:
    pair = await world.pair(hub={"federation": {"lost_after_s": 0.6}})
    pair.wire.mend()
    pair.wire.hang("FederationSync")
    pair.wire.lose_answers("LaunchJob")
    job_id = await pair.hub.client.submit(gpu_job())
    await started(pair.lab)
    await pair.lab.stop()
    pair.lab.wipe()
    pair.wire.mend()
    await pair.lab.start()
    job = await seen(pair.hub, job_id, WORKER_FAILED)
    assert "it may have run" in job.error
    await started(pair.lab)


async def test_a_delivery_that_only_a_new_database_refused_is_repeated_once_the_parent_has_heard_of_it(
    pair: Pair,
) -> None:
    pair.wire.mend()
    pair.wire.hang("FederationSync")
    await forget_everything(pair.lab)
    job_id = await pair.hub.client.submit(gpu_job())
    await seen(pair.hub, job_id, PENDING, reason="it answered aborted: this cluster's database is not the one")
    pair.wire.mend()
    await seen(pair.hub, job_id, RUNNING)
    await started(pair.lab)


async def test_a_new_database_takes_new_jobs(pair: Pair) -> None:
    await forget_everything(pair.lab)
    await in_contact(pair.hub)
    await seen(pair.hub, await pair.hub.client.submit(gpu_job()), RUNNING)


async def test_a_parent_reads_a_set_of_many_pages_whole(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = await handed_off(pair, 8)
    for job_id in ids:
        await seen(pair.hub, job_id.replace("hub.", ""), RUNNING)
    await pair.hub.stop()
    # As if it had never read anything.
    pair.hub.edit_at_rest("UPDATE federation_peers SET cursor = ''")
    for uid in await started(pair.lab, 8):
        pair.lab.engine.finish(uid, exit_code=6)
    for job_id in ids:
        await seen(pair.lab, job_id, FAILED)
    monkeypatch.setattr(feed, "PAGE_DELTAS", 3)
    before = pair.wire.seen.count("FederationSync")
    await pair.hub.start()
    for job_id in ids:
        assert (await seen(pair.hub, job_id.replace("hub.", ""), FAILED)).exit_code == 6
    assert pair.wire.seen.count("FederationSync") - before >= 3


async def test_a_parent_that_dies_between_two_pages_reads_the_set_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await handed_off(pair, 5)
    for job_id in ids:
        await seen(pair.hub, job_id.replace("hub.", ""), RUNNING)
    await pair.hub.stop()
    pair.hub.edit_at_rest("UPDATE federation_peers SET cursor = ''")
    uids = await started(pair.lab, 5)
    pair.lab.engine.finish(uids[4], exit_code=6)
    # What the peer has lost must be found out although the parent dies within the set.
    await pair.lab.execute("DELETE FROM federated_jobs WHERE job_id = ?", ids[1])
    await pair.lab.execute("DELETE FROM jobs WHERE job_id = ?", ids[1])
    monkeypatch.setattr(feed, "PAGE_DELTAS", 1)
    pages = pair.wire.arrived.count("FederationSync")
    await pair.hub.start()

    async def within_the_set() -> bool:
        if pair.wire.arrived.count("FederationSync") > pages:
            pair.wire.hang("FederationSync")
        return bool(pair.wire.held)

    await until(within_the_set)
    assert await pair.hub.rows("SELECT 1 FROM federated_jobs WHERE missing_since_ms IS NOT NULL") == []
    await pair.hub.crash()
    await pair.hub.start()
    missing = ids.pop(1).replace("hub.", "")
    await seen(pair.hub, missing, RUNNING, reason="does not show this job any more")
    assert (await seen(pair.hub, ids[3].replace("hub.", ""), FAILED)).exit_code == 6
    assert [(await seen(pair.hub, job_id.replace("hub.", ""))).state for job_id in ids[:3]] == [RUNNING] * 3


@pytest.mark.parametrize("row", ["without nonce", "unreadable"])
async def test_a_set_that_does_not_name_a_job_by_its_nonce_is_no_proof_that_it_is_missing(
    world: World, row: str
) -> None:
    pair = await world.pair(hub={"federation": {"lost_after_s": 0.3, "poll_interval_s": 0.05}})
    job_id = await pair.hub.client.submit(gpu_job())
    await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING, status="SYNCED")
    (handle,) = await pair.hub.rows("SELECT remote_job_id FROM federated_jobs")
    told = handle["remote_job_id"] if row == "without nonce" else "nonsense"
    summary = job_pb2.JobStatus(job_id=told, state=job_pb2.JOB_STATE_RUNNING)
    answer = Controller.FederationSyncResponse(
        deltas=[Controller.FederationJobDelta(job_id=told, summary=summary)], next_cursor="17", cursor_stale=True
    )
    pair.wire.mend()
    pair.wire.answer("FederationSync", 200, "application/proto", answer.SerializeToString())
    began, before = time.monotonic(), pair.wire.seen.count("FederationSync")

    async def past_the_grace() -> bool:
        return time.monotonic() - began > 0.6 and pair.wire.seen.count("FederationSync") >= before + 6

    await until(past_the_grace)
    job = await seen(pair.hub, job_id)
    assert (job.state, job.pending_reason) == (RUNNING, "")


async def test_an_incarnation_that_is_over_here_but_alive_there_is_ended_there(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    await pair.hub.execute("UPDATE federated_jobs SET state = 'CLOSED', closed_ms = 1")
    await pair.hub.execute("UPDATE jobs SET state = 'KILLED', finished_ms = 1")
    pair.lab.engine.use(uid, Usage(memory_bytes=2**20))
    await seen(pair.lab, job_id.replace("/train", "/hub.train"), KILLED)
    assert (await seen(pair.hub, job_id)).state == KILLED


async def test_held_requests_are_answered_when_the_peer_stops(pair: Pair, channel: Channel) -> None:
    _, cursor = await read_on(channel, "", max_deltas=100)
    held = channel.controller.federation_sync(
        Request(requester_id="hub", cursor=cursor, max_deltas=10, wait_ms=60_000), timeout_ms=60_000
    )

    async def stop_when_held() -> bool:
        pair.lab.running.feed.stop()
        return True

    await until(stop_when_held)
    assert (await held).next_cursor == cursor


async def prune(cluster: Cluster) -> None:
    """Its finished received job leaves the handle, with how it ended."""
    await cluster.execute(
        "UPDATE federated_jobs SET state = 'PRUNED', closed_ms = 1, end_state = 'SUCCEEDED', end_exit_code = 0"
    )
    await cluster.execute("DELETE FROM jobs")


async def forget_everything(cluster: Cluster) -> None:
    await cluster.stop()
    cluster.wipe()
    await cluster.start()


async def test_no_moment_shows_a_cursor_whose_rows_were_not_applied(pair: Pair) -> None:
    """Whoever crashes after any COMMIT reads on from where the mirror stands."""
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    other = sqlite3.connect(pair.hub.running.db.path, check_same_thread=False)
    moments: list[tuple[str, str]] = []

    def look(statement: str) -> None:
        if statement.startswith("BEGIN"):
            sql = "SELECT p.cursor, j.state FROM federation_peers p, jobs j"
            moments.extend(other.execute(sql).fetchall())

    await pair.hub.running.db.alone(lambda tx: tx.set_trace_callback(look))
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    await pair.hub.running.db.write(lambda tx: tx.execute("SELECT 1").fetchone())
    await pair.hub.running.db.alone(lambda tx: tx.set_trace_callback(None))
    other.close()
    (last,) = await pair.hub.rows("SELECT cursor FROM federation_peers")
    assert {state for cursor, state in moments if cursor == last["cursor"]} == {"SUCCEEDED"}
    assert {state for cursor, state in moments if cursor != last["cursor"]} == {"RUNNING"}


async def test_an_end_is_told_with_all_tasks_however_the_news_falls_on_pages(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await pair.hub.client.submit(gpu_job(replicas=3))
    uids = await started(pair.lab, 3)
    await seen(pair.hub, job_id, RUNNING)
    pair.wire.cut()
    for uid in uids:
        pair.lab.engine.finish(uid)
    await seen(pair.lab, job_id.replace("/train", "/hub.train"), SUCCEEDED)
    monkeypatch.setattr(changes, "MAX_ROWS_READ", 1)
    pair.wire.mend()
    job = await seen(pair.hub, job_id, SUCCEEDED)
    assert dict(job.task_state_counts) == {"SUCCEEDED": 3}
