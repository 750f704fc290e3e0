"""Measures what matters on one machine in one run: `python tests/benchmark/measure.py`.

Two real controllers with the local backend on loopback. Trust the ratios: machines differ.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from iris_fed.cli.setup import new_key_pair
from iris_fed.client import Client, command_job
from iris_fed.rpc.connect_client import keep_loopback_off_proxies
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller

START_TIMEOUT_S = 30.0


class Cluster:
    """One `iris-fed serve` in a directory of its own."""

    def __init__(self, folder: Path, settings: dict[str, object]) -> None:
        folder.mkdir()
        self.state = folder / "state"
        (folder / "iris-fed.yaml").write_text(json.dumps(settings))
        self._log = (folder / "log").open("wb")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "iris_fed.cli",
                "serve",
                "--config",
                str(folder / "iris-fed.yaml"),
                "--exit-with-parent",
            ],
            stdin=subprocess.PIPE,
            stderr=self._log,
        )

    def url(self) -> str:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if (self.state / "controller.url").exists():
                return (self.state / "controller.url").read_text().strip()
            if self.process.poll() is not None:
                raise SystemExit(f"a controller ended with {self.process.returncode}; see {self._log.name}")
            time.sleep(0.05)
        raise SystemExit("a controller did not start in time")

    def client(self) -> Client:
        return Client(self.url(), token=(self.state / "admin.token").read_text().strip())

    def cpu_s(self) -> float:
        """Processor time used so far, all threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)
        self._log.close()


def start_two(folder: Path) -> tuple[Cluster, Cluster]:
    private, public = new_key_pair()
    (folder / "key.pem").write_text(private)
    (folder / "nonce.key").write_text(os.urandom(32).hex())
    lab = Cluster(
        folder / "lab",
        {
            "cluster": {"name": "lab"},
            "listen": {"port": 0},
            "log": {"level": "warning"},
            "backends": [{"id": "local", "devices": {"h100": 64}, "shared_uid": "accept"}],
            "auth": {
                "federation_peers": {
                    "hub": {
                        "public_keys": [public],
                        "allowed_submitters": ["*"],
                    }
                }
            },
        },
    )
    hub = Cluster(
        folder / "hub",
        {
            "cluster": {"name": "hub"},
            "listen": {"port": 0},
            "log": {"level": "warning"},
            "auth": {"signing_key": f"file:{folder}/key.pem", "nonce_key": f"file:{folder}/nonce.key"},
            "peers": [{"name": "lab", "address": lab.url()}],
        },
    )
    return hub, lab


def show(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def rate(count: int, at_once: int, call: Callable[[int], Awaitable[object]]) -> float:
    """Calls per second."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await call(number)

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    return count / (time.perf_counter() - started)


async def until_ended(client: Client, names: list[str]) -> None:
    waiting = set(names)
    while waiting:
        states = await client.job_states(sorted(waiting))
        waiting -= {name for name, state in states.items() if state >= 4}
        if waiting:
            await asyncio.sleep(0.01)


async def latency(client: Client, label: str, rounds: int, gpu: tuple[str, int] | None) -> None:
    times = []
    for number in range(rounds):
        started = time.perf_counter()
        name = await client.submit(command_job(["true"], name=f"{label}-{number}", gpu=gpu))
        await until_ended(client, [name])
        times.append((time.perf_counter() - started) * 1000)
    times.sort()
    show(f"submit to end, {label}: p50 {statistics.median(times):.1f} ms, p95 {times[int(len(times) * 0.95)]:.1f} ms")


async def measure(hub: Cluster, lab: Cluster, scale: int) -> None:
    async with hub.client() as client:
        while not any(peer.reachable and peer.backends for peer in (await client.peers()).peers):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        noop = await rate(2000 * scale, 16, lambda _: client.whoami())
        show(f"no-op RPC (GetCurrentUser), 16 at once: {noop:.0f}/s")
        queued: list[str] = []

        async def queue(number: int) -> None:
            queued.append(await client.submit(_too_busy(number)))

        submit = await rate(1000 * scale, 16, queue)
        show(f"LaunchJob (durable, queued), 16 at once: {submit:.0f}/s = {submit / noop:.0%} of the no-op")
        await latency(client, "local", 50, None)
        await latency(client, "federated", 50, ("h100", 1))
        count = 300 * scale
        before = hub.cpu_s(), lab.cpu_s()
        started = time.perf_counter()
        names: list[str] = []

        async def one(number: int) -> None:
            names.append(await client.submit(command_job(["true"], name=f"many-{number}", gpu=("h100", 1))))

        await rate(count, 16, one)
        handed = time.perf_counter() - started
        await until_ended(client, names)
        took = time.perf_counter() - started
        show(f"federated jobs, 16 submitters: {count / handed:.0f} handed off/s, {count / took:.0f} ended/s")
        hub_ms, lab_ms = (
            (now - then) * 1000 / count for now, then in zip((hub.cpu_s(), lab.cpu_s()), before, strict=True)
        )
        show(f"processor time for each of them: hub {hub_ms:.1f} ms, lab {lab_ms:.1f} ms")
        # The one that runs would outlive the measurement.
        for job_id in queued:
            await client.cancel(job_id)
        await until_ended(client, queued)
        show(f"memory: hub {hub.rss_mb():.0f} MiB, lab {lab.rss_mb():.0f} MiB")


def _too_busy(number: int) -> Controller.LaunchJobRequest:
    """A job that fits this machine but not beside the one before it: all but one wait in the queue."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4
    return command_job(["sleep", "600"], name=f"queued-{number}", memory_bytes=memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=1, help="multiplies the counts")
    arguments = parser.parse_args()
    keep_loopback_off_proxies()
    with tempfile.TemporaryDirectory(prefix="iris-fed-measure-") as folder:
        hub, lab = start_two(Path(folder))
        try:
            asyncio.run(measure(hub, lab, arguments.scale))
        finally:
            for cluster in (hub, lab):
                cluster.stop()


if __name__ == "__main__":
    main()
