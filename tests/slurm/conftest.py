"""One Slurm of three nodes for all tests here, and worlds on it that leave nothing behind."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.slurm.real import Node, Slurm, running_slurm
from tests.slurm.world import World

NODES = (Node("n1", h100=8), Node("n2", h100=4, feature="fast"), Node("n3"))


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    with running_slurm(NODES) as world:
        yield world


@pytest.fixture
async def world(slurm: Slurm, tmp_path: Path) -> AsyncIterator[World]:
    made = World(slurm, tmp_path)
    yield made
    await made.close()
