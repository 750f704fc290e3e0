"""One suite, every implementation."""

import dataclasses
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from iris_fed.backends.local.settings import LocalSettings
from iris_fed.backends.slurm.settings import SlurmSettings
from tests.conformance.harness import (
    OUTPUT_BYTES,
    Harness,
    LocalHarness,
    ScriptedHarness,
    SlurmHarness,
    cgroups_can_be_made,
)
from tests.slurm.real import Node, Slurm, running_slurm

SETTINGS = LocalSettings(
    name="node-1",
    cpu_millicores=4000,
    memory_bytes=8 * 1024**3,
    devices={"h100": 8},
    attributes={"region": ("here",)},
    kill_grace_s=0.2,
    output_bytes=OUTPUT_BYTES,
)


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    """One machine, as the local backend's."""
    with running_slurm([Node("node-1", cpus=4, memory=8192, h100=8)]) as world:
        yield world


@pytest.fixture(params=["scripted", "local-cgroup", "local-warden", "slurm"])
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Harness]:
    kind = str(request.param)
    world: Harness
    if kind == "scripted":
        world = ScriptedHarness(SETTINGS)
    elif kind == "slurm":
        world = slurm_world(request.getfixturevalue("slurm"), tmp_path)
    else:
        world = local_world(kind, tmp_path)
    yield world
    await world.close()


@pytest.fixture(params=["local-cgroup", "local-warden"])
async def local(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LocalHarness]:
    world = local_world(str(request.param), tmp_path)
    yield world
    await world.close()


@pytest.fixture
async def warden(tmp_path: Path) -> AsyncIterator[LocalHarness]:
    world = local_world("local-warden", tmp_path)
    yield world
    await world.close()


def slurm_world(slurm: Slurm, folder: Path) -> SlurmHarness:
    """Without a queue: what is not free is not started, as on one's own machine."""
    settings = SlurmSettings(
        shared_dir=folder / "shared",
        python=sys.executable,
        attributes=SETTINGS.attributes,
        max_pending=0,
        address="127.0.0.1",
        kill_grace_s=SETTINGS.kill_grace_s,
        output_bytes=OUTPUT_BYTES,
        poll_interval_s=1.0,
        lost_after_s=2.0,
    )
    return SlurmHarness(folder, slurm, settings)


def local_world(kind: str, folder: Path) -> LocalHarness:
    uses_cgroup = kind == "local-cgroup"
    if uses_cgroup and not cgroups_can_be_made():
        pytest.skip("no writable cgroup v2 on this machine")
    return LocalHarness(folder, dataclasses.replace(SETTINGS, use_cgroup=uses_cgroup))
