"""A job whose start takes long, as with a large workspace, keeps nobody waiting but itself."""

import asyncio
from dataclasses import dataclass

import pytest

from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from tests.federation.world import KILLED, PENDING, RUNNING, SUCCEEDED, Cluster, World, cpu_job, gpu_job, seen, until


@dataclass(frozen=True)
class Place:
    """Where jobs are submitted, and where they run."""

    user: Cluster
    runs: Cluster

    def job(self, name: str) -> Controller.LaunchJobRequest:
        return (cpu_job if self.user is self.runs else gpu_job)(f"/alice/{name}")

    def task(self, name: str) -> str:
        """The id of task 0, by which the engine knows it."""
        prefix = "" if self.user is self.runs else f"{self.user.name}."
        return f"/alice/{prefix}{name}/0"

    def uid(self, name: str) -> str:
        return next(r.attempt_uid for r in self.runs.engine.launched if r.task_id == self.task(name))

    async def submit(self, name: str) -> str:
        return await self.user.client.submit(self.job(name))


@pytest.fixture(params=["here", "on a peer"])
async def place(request: pytest.FixtureRequest, world: World) -> Place:
    if request.param == "here":
        solo = await world.add("solo")
        return Place(solo, solo)
    pair = await world.pair()
    return Place(pair.hub, pair.lab)


async def slow(place: Place) -> asyncio.Event:
    """The job `slow` is being prepared until the event is set."""
    gate = place.runs.engine.gates[place.task("slow")] = asyncio.Event()
    await place.submit("slow")

    async def is_prepared() -> bool:
        return bool(place.runs.engine.preparing)

    await until(is_prepared)
    return gate


async def test_it_holds_up_neither_the_start_of_another_job_nor_its_end_nor_a_kill(place: Place) -> None:
    early = await place.submit("early")
    await seen(place.user, early, RUNNING)
    gate = await slow(place)
    other = await place.submit("other")
    await seen(place.user, other, RUNNING)
    place.runs.engine.finish(place.uid("other"))
    await seen(place.user, other, SUCCEEDED)
    await place.user.client.cancel(early)
    await seen(place.user, early, KILLED)
    await seen(place.user, "/alice/slow", PENDING)
    assert len(place.runs.engine.preparing) == 1
    gate.set()
    await seen(place.user, "/alice/slow", RUNNING)
    assert [r.task_id for r in place.runs.engine.launched].count(place.task("slow")) == 1


async def test_cancelled_meanwhile_it_ends_and_others_go_on(place: Place) -> None:
    gate = await slow(place)
    await place.user.client.cancel("/alice/slow")
    other = await place.submit("other")
    await seen(place.user, other, RUNNING)
    gate.set()
    ended = await seen(place.user, "/alice/slow", KILLED)
    assert ended.error.startswith("cancelled by")
    assert place.runs.engine.attempts[place.uid("slow")].end is not None
