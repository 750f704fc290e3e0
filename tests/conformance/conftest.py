"""One suite, every implementation."""

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from iris_fed.backends.local.settings import LocalSettings
from tests.conformance.harness import (
    OUTPUT_BYTES,
    Harness,
    LocalHarness,
    ScriptedHarness,
    cgroups_can_be_made,
)

SETTINGS = LocalSettings(
    name="node-1",
    cpu_millicores=4000,
    memory_bytes=8 * 1024**3,
    devices={"h100": 8},
    attributes={"region": ("here",)},
    kill_grace_s=0.2,
    output_bytes=OUTPUT_BYTES,
)


@pytest.fixture(params=["scripted", "local-cgroup", "local-warden"])
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Harness]:
    kind = str(request.param)
    world = ScriptedHarness(SETTINGS) if kind == "scripted" else local_world(kind, tmp_path)
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


def local_world(kind: str, folder: Path) -> LocalHarness:
    uses_cgroup = kind == "local-cgroup"
    if uses_cgroup and not cgroups_can_be_made():
        pytest.skip("no writable cgroup v2 on this machine")
    return LocalHarness(folder, dataclasses.replace(SETTINGS, use_cgroup=uses_cgroup))
