"""A peer that says what it should not: it touches no other peer, destroys nothing, and is not asked in a hurry."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest
from pyqwest import Headers, Request, Response, Transport

from iris_fed.model.ports import PeerUnreachable
from iris_fed.rpc import peer_client
from iris_fed.rpc.credentials import Credentials
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller as Wired
from iris_fed.rpc.gen.job import job_pb2
from iris_fed.rpc.peer_client import ConnectPeer
from tests.federation.wire import Wire
from tests.federation.world import (
    PENDING,
    RUNNING,
    SUCCEEDED,
    Cluster,
    Pair,
    World,
    cpu_job,
    gpu_job,
    in_contact,
    job_of,
    pinned,
    seen,
    started,
    until,
)

A_WHILE_S = 1.0
NOT_IN_A_HURRY = 12
"""Requests within that while: the first ones after a failure follow each other quickly."""


def says(wire: Wire, answer: Wired.FederationSyncResponse) -> None:
    wire.answer("FederationSync", 200, "application/proto", answer.SerializeToString())


def full_set(rows: Iterable[Wired.FederationJobDelta] = (), **fields: object) -> Wired.FederationSyncResponse:
    answer = Wired.FederationSyncResponse(
        deltas=rows, next_cursor="7.x", cursor_stale=True, long_poll=True, database_id="another"
    )
    answer.MergeFrom(Wired.FederationSyncResponse(**fields))  # type: ignore[arg-type]
    return answer


def row(job_id: str, nonce: str, state: job_pb2.JobState, **summary: object) -> Wired.FederationJobDelta:
    status = job_pb2.JobStatus(job_id=job_id, state=state)
    status.MergeFrom(job_pb2.JobStatus(**summary))  # type: ignore[arg-type]
    return Wired.FederationJobDelta(job_id=job_id, handoff_nonce=nonce, summary=status)


async def asked_meanwhile(wire: Wire) -> int:
    before = wire.seen.count("FederationSync")
    deadline = asyncio.get_running_loop().time() + A_WHILE_S

    async def over() -> bool:
        return asyncio.get_running_loop().time() >= deadline

    await until(over)
    return wire.seen.count("FederationSync") - before


async def nonce_of(cluster: Cluster, job_id: str) -> str:
    (found,) = await cluster.rows("SELECT nonce FROM jobs WHERE job_id = ?", job_id)
    return str(found["nonce"])


async def reconnect(wire: Wire, answer: Wired.FederationSyncResponse) -> None:
    """What is under way breaks; from then on the peer says this."""
    wire.mend()
    says(wire, answer)


@pytest.mark.parametrize(
    "answer",
    [
        full_set(more=True, next_cursor=""),
        Wired.FederationSyncResponse(next_cursor="5.x", more=True, long_poll=True, database_id="another"),
        full_set(cursor_stale=False),
        Wired.FederationSyncResponse(next_cursor="x" * 5_000, cursor_stale=True),
    ],
    ids=["a page without a place to go on", "no full set when asked for one", "pages without a set", "a huge cursor"],
)
async def test_an_answer_against_the_protocol_changes_nothing_and_is_asked_for_in_no_hurry(
    pair: Pair, answer: Wired.FederationSyncResponse
) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    await pair.hub.execute("UPDATE federation_peers SET full_set_done = 0")
    await pair.hub.restart()
    await reconnect(pair.wire, answer)
    assert await asked_meanwhile(pair.wire) <= NOT_IN_A_HURRY
    assert (await job_of(pair.hub, job_id)).state == RUNNING
    assert (await pair.hub.client.submit(cpu_job())) != ""


async def test_one_empty_set_loses_nothing(world: World) -> None:
    pair = await world.pair(hub={"federation": {"poll_interval_s": 0.2}})
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    await reconnect(pair.wire, full_set())
    await seen(pair.hub, job_id, RUNNING, reason="does not show this job any more")
    pair.wire.mend()
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)


async def test_a_cursor_that_is_stale_every_time_is_asked_for_in_no_hurry(pair: Pair) -> None:
    await reconnect(pair.wire, full_set(database_id="lab"))
    assert await asked_meanwhile(pair.wire) <= NOT_IN_A_HURRY


async def test_a_peer_can_say_nothing_of_jobs_at_another_peer_or_here(world: World) -> None:
    lab = await world.add("lab", h100=8, trusts={"hub": ["*"]})
    await world.add("liar", h100=8, trusts={"hub": ["*"]})
    hub = await world.add("hub", peers=("lab", "liar"))
    await in_contact(hub)
    there = await hub.client.submit(pinned(gpu_job(), cluster="lab"))
    (uid,) = await started(lab)
    await seen(hub, there, RUNNING)
    here = await hub.client.submit(cpu_job("local"))
    await started(hub)
    nonce = await nonce_of(hub, there)
    lies = [
        row("/root/hub.train", nonce, job_pb2.JOB_STATE_FAILED, error="a lie", task_count=1),
        row("/root/hub.local", nonce, job_pb2.JOB_STATE_FAILED, error="a lie", task_count=1),
        row("/root/local", "made.up", job_pb2.JOB_STATE_KILLED, error="a lie", task_count=1),
        row("/root/hub.train/below", nonce, job_pb2.JOB_STATE_RUNNING, task_count=1),
        row("/root/hub.new", "made.up", job_pb2.JOB_STATE_RUNNING, task_count=1),
    ]
    wire = world.wire("hub", "liar")
    await reconnect(wire, full_set(lies))

    async def heard() -> bool:
        return hub.running.federation.link("liar").state.database_id == "another"

    await until(heard)
    lab.engine.finish(uid)
    assert not (await seen(hub, there, SUCCEEDED)).error
    assert (await job_of(hub, here)).state == RUNNING
    assert sorted([job.job_id async for job in hub.client.list_jobs()]) == sorted([here, there])


async def test_what_has_ended_stays_as_it_ended_whatever_the_peer_says_later(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    nonce = await nonce_of(pair.hub, job_id)
    later = row("/root/hub.train", nonce, job_pb2.JOB_STATE_FAILED, error="thought better of it", task_count=1)
    await reconnect(pair.wire, full_set([later]))

    async def heard() -> bool:
        return pair.hub.running.federation.link("lab").state.database_id == "another"

    await until(heard)
    job = await job_of(pair.hub, job_id)
    assert (job.state, job.error) == (SUCCEEDED, "")


async def test_a_peer_that_is_full_for_long_is_asked_ever_more_seldom_and_gets_the_job_in_the_end(world: World) -> None:
    pair = await world.pair(hub={"federation": {"max_backoff_s": 1000.0}})
    words = b'{"code": "resource_exhausted", "message": "too many writes are waiting"}'
    pair.wire.answer("LaunchJob", 429, "application/json", words)
    job_id = await pair.hub.client.submit(gpu_job())
    await seen(pair.hub, job_id, PENDING, reason="too many writes are waiting")
    quick = await pair.hub.client.submit(cpu_job())
    await seen(pair.hub, quick, RUNNING)

    async def tried_often() -> list[dict[str, int]]:
        sql = "SELECT next_try_ms - created_ms AS later_ms FROM federated_jobs WHERE tries >= 3"
        return await pair.hub.rows(sql)

    (handle,) = await until(tried_often)
    assert handle["later_ms"] > 1_000
    assert pair.wire.seen.count("LaunchJob") <= 4
    await reconnect_honest(pair)
    await seen(pair.hub, job_id, RUNNING)


async def reconnect_honest(pair: Pair) -> None:
    """It is away, and comes back as it should be: then nothing waits for its back-off."""
    pair.wire.cut()
    await in_contact(pair.hub, reachable=False)
    pair.wire.mend()
    await in_contact(pair.hub)


class Endless(Transport):
    """Answers with a body that never ends; `taken` counts the bytes that were read of it."""

    def __init__(self) -> None:
        self.taken = 0

    async def execute(self, request: Request) -> Response:
        return Response(status=200, headers=Headers([("content-type", "application/proto")]), content=self._for_ever())

    async def _for_ever(self) -> AsyncIterator[bytes]:
        while True:
            self.taken += 2**16
            yield bytes(2**16)


async def test_an_answer_without_an_end_is_read_only_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_client, "MAX_ANSWER_BYTES", 2**20)
    endless = Endless()
    peer = ConnectPeer("http://127.0.0.1:1", Credentials(lambda: "token"), 5.0, transport=endless)
    with pytest.raises(PeerUnreachable, match="larger than 1048576 bytes"):
        await peer.list_backends()
    assert endless.taken <= 2**20 + 2**18
