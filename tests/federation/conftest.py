"""Two or three real controllers in one process."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.federation.world import Pair, World


@pytest.fixture(scope="session")
def keys() -> dict[str, str]:
    """Private keys by cluster, made once."""
    return {}


@pytest.fixture
async def world(tmp_path: Path, keys: dict[str, str]) -> AsyncIterator[World]:
    world = World(tmp_path, keys)
    yield world
    await world.close()


@pytest.fixture
async def pair(world: World) -> Pair:
    """A hub and its lab, in contact."""
    return await world.pair()
