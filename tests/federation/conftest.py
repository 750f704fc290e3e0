"""Two or three real controllers in one process."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.federation.world import Pair, World


@pytest.fixture(scope="session")
def keys() -> dict[str, str]:
    """Private keys by cluster, made once."""
    return {}


@pytest.fixture
async def world(tmp_path: Path, keys: dict[str, str]) -> AsyncIterator[World]:
    """Fails a test in which a loop crashed, or anything else went wrong that is ours to prevent."""
    world = World(tmp_path, keys)
    with capture_logs() as events:
        yield world
        await world.close()
    errors = [event for event in events if event["log_level"] in ("error", "critical")]
    assert [event for event in errors if event["event"] not in world.expected_errors] == []
    assert world.failures == []


@pytest.fixture
async def pair(world: World) -> Pair:
    """A hub and its lab, in contact."""
    return await world.pair()
