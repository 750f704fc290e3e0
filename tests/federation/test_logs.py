"""The output of a job that runs elsewhere, read where it was submitted."""

import asyncio

import pytest

from iris_fed.backends.base import LogPage
from iris_fed.backends.posix.logfile import MAX_LINE_BYTES
from iris_fed.clock import SystemClock, SystemEntropy
from iris_fed.controller.logs import RELAY_TRIES_AFTER_END, LogReader
from iris_fed.errors import Aborted
from iris_fed.model.limits import DAY_MS
from iris_fed.model.logs import LogBatch, LogRequest
from iris_fed.signals import JobSignals
from iris_fed.store.runtime import Runtime
from tests.federation.world import RUNNING, SUCCEEDED, Cluster, Pair, World, gpu_job, seen, started, until


class Reader:
    """Follows a job's output in a task of its own."""

    def __init__(self, cluster: Cluster, job_id: str) -> None:
        self.lines: list[bytes] = []
        self.notices: list[str] = []
        self._stream = cluster.client.logs(job_id, follow=True)
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for batch in self._stream:
            self.lines += [line.data for line in batch.lines]
            if batch.notice:
                self.notices.append(batch.notice)

    async def has(self, count: int) -> None:
        async def enough() -> bool:
            return len(self.lines) >= count

        await until(enough)


async def test_output_is_relayed_while_it_is_written(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    reader = Reader(pair.hub, job_id)
    (uid,) = await started(pair.lab)
    for number in range(3):
        pair.lab.engine.write(uid, b"line %d\n" % number)
        await reader.has(number + 1)
    pair.lab.engine.finish(uid)
    await asyncio.wait_for(reader.task, 5)
    assert reader.lines == [b"line 0\n", b"line 1\n", b"line 2\n"]
    assert reader.notices == []


@pytest.mark.parametrize("break_by", ["cut", "restart lab", "crash lab", "restart hub"])
async def test_output_is_resumed_after_a_break_without_a_line_lost_or_told_twice(pair: Pair, break_by: str) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    reader = Reader(pair.hub, job_id)
    pair.lab.engine.write(uid, b"one\ntwo\n")
    await reader.has(2)
    match break_by:
        case "cut":
            pair.wire.cut()
            pair.lab.engine.write(uid, b"three\n")
            pair.wire.mend()
        case "restart lab":
            await pair.lab.stop()
            pair.lab.engine.write(uid, b"three\n")
            await pair.lab.start()
        case "crash lab":
            await pair.lab.crash()
            pair.lab.engine.write(uid, b"three\n")
            await pair.lab.start()
        case _:
            await pair.hub.stop()
            pair.lab.engine.write(uid, b"three\n")
            await pair.hub.start()
    await reader.has(3)
    pair.lab.engine.write(uid, b"four\n")
    pair.lab.engine.finish(uid)
    await asyncio.wait_for(reader.task, 10)
    assert reader.lines == [b"one\n", b"two\n", b"three\n", b"four\n"]


async def test_output_that_was_written_while_the_job_ended_is_read_afterwards_too(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job(replicas=2))
    for index, uid in enumerate(await started(pair.lab, 2)):
        pair.lab.engine.write(uid, b"task %d\n" % index)
        pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    read = [line async for batch in pair.hub.client.logs(job_id) for line in batch.lines]
    assert [(line.task_id, line.data) for line in read] == [
        (f"{job_id}/0", b"task 0\n"),
        (f"{job_id}/1", b"task 1\n"),
    ]


async def test_a_busy_peer_is_asked_for_the_output_again(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    pair.wire.answer("ReadLogs", 503, "application/json", b'{"code": "unavailable", "message": "starting"}')
    reader = Reader(pair.hub, job_id)

    async def asked() -> bool:
        return pair.wire.seen.count("ReadLogs") >= 2

    await until(asked)
    pair.wire.mend()
    pair.lab.engine.write(uid, b"here\n")
    pair.lab.engine.finish(uid)
    await asyncio.wait_for(reader.task, 10)
    assert reader.lines == [b"here\n"]


async def test_a_peer_without_logs_is_told_in_one_sentence(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    pair.wire.answer("ReadLogs", 404, "text/plain", b"")
    (batch,) = [batch async for batch in pair.hub.client.logs(job_id, follow=True)]
    assert "lab gives no output of this job: it offers no logs to other clusters" in batch.notice


async def test_bytes_of_any_kind_and_lines_of_any_length_arrive_as_they_were_written(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    reader = Reader(pair.hub, job_id)
    (uid,) = await started(pair.lab)
    written = (
        bytes(range(256)) + b"\xff\xfe\x00\r\n" + b"x" * (3 * MAX_LINE_BYTES + 5) + b"\n\n\x80 no newline at the end"
    )
    for start in range(0, len(written), 10_000):
        pair.lab.engine.write(uid, written[start : start + 10_000])
    await reader.has(4)
    pair.wire.cut()
    pair.wire.mend()
    pair.lab.engine.finish(uid)
    await asyncio.wait_for(reader.task, 10)
    assert b"".join(reader.lines) == written
    assert max(len(line) for line in reader.lines) == MAX_LINE_BYTES


async def test_nothing_is_read_ahead_of_a_reader_that_is_slow(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = await pair.lab.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    pair.lab.engine.write(uid, b"".join(b"line %06d\n" % number for number in range(10_000)))
    pair.lab.engine.finish(uid)
    await seen(pair.lab, job_id, SUCCEEDED)
    lab, page_bytes = pair.lab.running, 1_000
    runtime = Runtime(lab.db, SystemClock(), SystemEntropy(), JobSignals(), "lab", lab.meta.database_id)
    backend = lab.backends["gpu"]
    pages: list[LogPage] = []
    read_log = backend.read_log

    async def counted(attempt_uid: str, offset: int, max_bytes: int, tail_lines: int = 0) -> LogPage:
        pages.append(await read_log(attempt_uid, offset, max_bytes, tail_lines))
        return pages[-1]

    monkeypatch.setattr(backend, "read_log", counted)
    sent = 0

    async def send(batch: LogBatch) -> None:
        nonlocal sent
        sent += 1
        await seen(pair.lab, job_id)
        assert len(pages) == sent

    await LogReader(runtime, lab.backends, lab.federation, page_bytes).read(LogRequest(job_id), send)
    assert sent >= 100


async def test_of_a_job_that_the_peer_has_removed_the_parent_says_so(world: World) -> None:
    pair = await world.pair(lab={"retention": {"jobs_days": 0.001, "interval_s": 0.02}})
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    pair.lab.engine.write(uid, b"hello\n")
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    await pair.lab.execute("UPDATE jobs SET finished_ms = finished_ms - ?", 8 * DAY_MS)

    async def removed() -> bool:
        return not await pair.lab.rows("SELECT 1 FROM jobs")

    await until(removed)
    for follow in (False, True):
        (batch,) = [batch async for batch in pair.hub.client.logs(job_id, follow=follow)]
        assert batch.notice == "lab has removed this job after its time, and its output with it"
    assert (await seen(pair.hub, job_id)).state == SUCCEEDED


async def test_a_running_job_that_the_peer_does_not_know_has_no_output_and_the_parent_says_so(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    pair.wire.answer("ReadLogs", 404, "application/json", b'{"code": "not_found", "message": "no such job"}')
    (batch,) = [batch async for batch in pair.hub.client.logs(job_id, follow=True)]
    assert batch.notice == "lab does not know this job, so there is no output of it"


async def test_however_often_the_way_is_cut_while_a_job_runs_its_last_line_arrives(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    await seen(pair.hub, job_id, RUNNING)
    reader = Reader(pair.hub, job_id)
    cuts = RELAY_TRIES_AFTER_END + 1
    for number in range(cuts):
        pair.lab.engine.write(uid, b"line %d\n" % number)
        await reader.has(number + 1)
        pair.wire.cut()
        pair.wire.mend()
    asked = pair.wire.arrived.count("ReadLogs")

    async def reads_again() -> bool:
        return pair.wire.arrived.count("ReadLogs") > asked

    await until(reads_again)
    pair.wire.lose_requests("ReadLogs", 1)
    pair.lab.engine.write(uid, b"the last\n")
    pair.lab.engine.finish(uid)
    await asyncio.wait_for(reader.task, 10)
    assert reader.lines == [*(b"line %d\n" % number for number in range(cuts)), b"the last\n"]
    assert reader.notices == ["lost the connection to lab; going on when it is back"] * cuts


async def test_output_that_the_peer_cannot_be_asked_for_is_an_error_and_no_empty_output(pair: Pair) -> None:
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    pair.lab.engine.write(uid, b"written\n")
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    pair.wire.cut()
    with pytest.raises(Aborted, match="lab cannot be reached for the output"):
        async for _ in pair.hub.client.logs(job_id):
            pass
