"""Whether a controller tells its watchers that it is well, and helps itself where it is not."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
from structlog.testing import capture_logs

from iris_fed.backends.base import Backend, Recovery
from iris_fed.backends.local.settings import LocalSettings
from iris_fed.backends.scripted import ScriptedBackend, ScriptedEngine
from iris_fed.clock import SystemClock
from iris_fed.config.sections import LocalBackendSettings
from iris_fed.config.settings import Settings
from iris_fed.server.compose import Controller, Parts, running_controller
from tests.federation.world import (
    RUNNING,
    SUCCEEDED,
    Cluster,
    Pair,
    World,
    cpu_job,
    gpu_job,
    in_contact,
    job_of,
    seen,
    until,
)

STUCK_AFTER_S = 0.2


async def ask(controller: Controller, path: str = "/readyz", accept: str = "*/*") -> httpx.Response:
    app = httpx.ASGITransport(app=controller.asgi)
    async with httpx.AsyncClient(transport=app, base_url="http://127.0.0.1") as client:
        return await client.get(path, headers={"accept": accept})


class Hanging(ScriptedBackend):
    """Does not answer the first `recover` until it is let go."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.asked = 0

    async def recover(self, live: Collection[str]) -> Recovery:
        self.asked += 1
        if self.asked == 1:
            await asyncio.get_running_loop().create_future()
        return await super().recover(live)


@asynccontextmanager
async def controller_of(directory: Path, backend: Backend) -> AsyncIterator[Controller]:
    settings = Settings(
        cluster={"name": "lab"},
        state_dir=directory / "state",
        backends=[LocalBackendSettings(id="local")],
        stuck_after_s=STUCK_AFTER_S,
    )
    async with running_controller(settings, "http://127.0.0.1:1", Parts(make_backend=lambda _: backend)) as controller:
        yield controller


async def test_a_controller_that_is_well_says_so_in_either_form(pair: Pair) -> None:
    for cluster in (pair.hub, pair.lab):
        answer = await ask(cluster.running)
        assert (answer.status_code, answer.text) == (200, "ok\n")
    told: dict[str, Any] = (await ask(pair.hub.running, accept="application/json")).json()
    assert (told["ready"], told["problems"], told["notes"]) == (True, [], [])
    assert [loop["name"] for loop in told["loops"]] == [
        "control", "heartbeat lab", "observe cpu", "outbox lab", "pruner", "sync lab",
    ]  # fmt: skip
    assert all(loop["restarts"] == 0 for loop in told["loops"])


async def test_a_peer_that_is_away_makes_no_controller_unready(pair: Pair) -> None:
    pair.wire.cut()
    await in_contact(pair.hub, reachable=False)
    assert (await ask(pair.hub.running)).status_code == 200


async def test_a_backend_that_never_answers_turns_readiness_red_until_it_was_asked_again(tmp_path: Path) -> None:
    backend = Hanging()
    with capture_logs() as events:
        async with controller_of(tmp_path, backend) as controller:

            async def red() -> httpx.Response | None:
                answer = await ask(controller)
                return answer if answer.status_code == 503 else None

            answer = await until(red)
            assert answer is not None
            assert answer.text.startswith("not ready\nloop observe scripted is stuck; its last progress was ")
            assert (await ask(controller, "/healthz")).status_code == 200

            async def green() -> bool:
                return (await ask(controller)).status_code == 200

            await until(green)
            told = (await ask(controller, accept="application/json")).json()
    assert backend.asked == 2
    assert {loop["name"]: loop["restarts"] for loop in told["loops"]}["observe scripted"] == 1
    assert [event["loop"] for event in events if event["event"] == "loop.stuck"] == ["observe scripted"]


async def test_a_backend_that_is_away_when_the_controller_starts_holds_up_no_other(
    world: World, tmp_path: Path
) -> None:
    machine = LocalSettings("cpu", "cpu-node", cpu_millicores=8_000, memory_bytes=32 * 1024**3)
    machines = [machine, replace(machine, backend_id="gpu", name="gpu-node", devices={"h100": 8})]
    engines = {one.backend_id: ScriptedEngine(SystemClock(), one) for one in machines}
    lab = world.clusters["lab"] = Cluster(world, "lab", tmp_path, engines)
    away = engines["gpu"]
    await lab.start()
    on_gpu = await lab.client.submit(gpu_job("trains"))
    await seen(lab, on_gpu, RUNNING)

    await lab.stop()
    away.unavailable = True
    await lab.start()
    on_cpu = await lab.client.submit(cpu_job("counts"))
    await seen(lab, on_cpu, RUNNING)
    told = await ask(lab.running)
    assert told.status_code == 200
    assert "note: backend gpu cannot be reached: the scripted engine was told to be away" in told.text
    waits = await lab.client.submit(gpu_job("waits", count=1))

    async def reason() -> str:
        return (await job_of(lab, waits)).pending_reason

    assert "waiting for backend gpu, which cannot be reached: the scripted engine" in await until(reason)
    assert (await job_of(lab, on_gpu)).state == RUNNING

    away.unavailable = False
    await seen(lab, waits, RUNNING)
    assert (await ask(lab.running)).text == "ok\n"
    (first, _) = [request.attempt_uid for request in away.launched]
    away.finish(first)
    await seen(lab, on_gpu, SUCCEEDED)


async def test_a_database_that_takes_no_write_turns_readiness_red(world: World) -> None:
    lab = await world.add("lab", h100=8)
    world.expected_errors |= {"loop.crashed"}
    await lab.running.db.close()
    answer = await ask(lab.running)
    assert answer.status_code == 503
    assert "the database cannot be written" in answer.text
    assert (await ask(lab.running, "/healthz")).text == "ok\n"
