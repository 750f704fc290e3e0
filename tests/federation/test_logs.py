"""The output of a job that runs elsewhere, read where it was submitted."""

import asyncio

import pytest

from tests.federation.world import RUNNING, SUCCEEDED, Cluster, Pair, gpu_job, seen, started, until


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
