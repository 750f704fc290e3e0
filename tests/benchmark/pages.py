"""What open pages cost: `python tests/benchmark/pages.py`.

One real controller on loopback. Each page holds WatchChanges and lists the newest jobs again when it is told
to, at most once a second. Idle: nothing happens. Busy: a job is submitted and ends every 200 ms.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from connectrpc.errors import ConnectError

from iris_fed.client import Client, command_job
from iris_fed.rpc.connect_client import Channel, keep_loopback_off_proxies
from iris_fed.rpc.credentials import Credentials
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.irisfed import cluster_pb2
from tests.benchmark.measure import Cluster, rate, show, until_ended

AT_MOST_EVERY_S = 1.0
JOB_EVERY_S = 0.2
SHOWN = 50
BEFORE = 500
"""Jobs that the controller remembers when the pages are opened."""


class Page:
    """`shown` is when each job was first seen to have ended, by the event loop's clock."""

    def __init__(self, cluster: Cluster) -> None:
        token = (cluster.state / "admin.token").read_text().strip()
        self._channel = Channel(cluster.url(), credentials=Credentials(lambda: token))
        self.shown: dict[str, float] = {}
        self.lists = 0
        self.watches = 0

    async def run(self) -> None:
        position = ""
        while True:
            request = cluster_pb2.WatchChangesRequest(position=position)
            answer = await self._channel.cluster.watch_changes(request, timeout_ms=60_000)
            self.watches += 1
            if answer.root_job_ids or answer.all_jobs or not position:
                await self._list()
                await asyncio.sleep(AT_MOST_EVERY_S)
            position = answer.position

    async def _list(self) -> None:
        query = Controller.JobQuery(limit=SHOWN)
        page = await self._channel.controller.list_jobs(Controller.ListJobsRequest(query=query))
        self.lists += 1
        now = time.perf_counter()
        for job in page.jobs:
            if job.state >= 4:
                self.shown.setdefault(job.job_id, now)


async def measure(cluster: Cluster, count: int, seconds: float) -> None:
    async with cluster.client() as client:
        names: list[str] = []

        async def one(number: int) -> None:
            names.append(await client.submit(command_job(["true"], name=f"before-{number}", cpu_millicores=10)))

        await rate(BEFORE, 16, one)
        await until_ended(client, names)
        await _share(cluster, "without pages", seconds / 2)
        pages = [Page(cluster) for _ in range(count)]
        runs = [asyncio.create_task(page.run()) for page in pages]
        await asyncio.sleep(3)
        await _share(cluster, f"{count} pages, idle", seconds)
        before = sum(page.lists for page in pages)
        busy = asyncio.create_task(_jobs(client, seconds))
        await _share(cluster, f"{count} pages, a job every {JOB_EVERY_S:g} s", seconds)
        ended = await busy
        await asyncio.sleep(2.5)
        show(f"lists asked for: {(sum(page.lists for page in pages) - before) / seconds:.0f}/s")
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)
        seen = [(page.shown.get(job), at) for page in pages for job, at in ended.items()]
        waits = sorted((shown - at) * 1000 for shown, at in seen if shown is not None)
        missed = len(pages) * len(ended) - len(waits)
        show(f"end committed until a page shows it: p50 {statistics.median(waits):.0f} ms, ")
        show(f"  p95 {waits[int(len(waits) * 0.95)]:.0f} ms, most {waits[-1]:.0f} ms; {missed} never shown")
        await _share(cluster, "the same jobs without pages", seconds, _jobs(client, seconds))


async def _jobs(client: Client, seconds: float) -> dict[str, float]:
    """When the end of each was first known to a client that asks for nothing else."""
    ended: dict[str, float] = {}
    deadline = time.perf_counter() + seconds
    number = int(time.time() * 1000)
    while time.perf_counter() < deadline:
        started, number = time.perf_counter(), number + 1
        job_id = await client.submit(command_job(["true"], name=f"busy-{number}", cpu_millicores=100))
        await until_ended(client, [job_id])
        ended[job_id] = time.perf_counter()
        await asyncio.sleep(max(0.0, JOB_EVERY_S - (time.perf_counter() - started)))
    return ended


async def _share(cluster: Cluster, label: str, seconds: float, work: object = None) -> None:
    running = asyncio.ensure_future(work) if work is not None else None  # type: ignore[call-overload]
    cpu, began = cluster.cpu_s(), time.perf_counter()
    await asyncio.sleep(seconds)
    used = cluster.cpu_s() - cpu
    show(f"{label}: {used / (time.perf_counter() - began):.1%} of one core")
    if running is not None:
        await running


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    keep_loopback_off_proxies()
    with tempfile.TemporaryDirectory(prefix="iris-fed-pages-") as folder:
        settings: dict[str, object] = {"cluster": {"name": "hub"}, "listen": {"port": 0}, "log": {"level": "warning"}}
        cluster = Cluster(Path(folder) / "hub", settings)
        try:
            asyncio.run(measure(cluster, arguments.pages, arguments.seconds))
        except ConnectError as error:
            raise SystemExit(f"{error.code}: {error.message}") from error
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
