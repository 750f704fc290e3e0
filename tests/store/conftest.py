"""A real database on disk for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from iris_fed.store.db import Database
from iris_fed.store.opening import DATABASE_NAME, open_database
from tests.store.samples import NOON


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    database, _ = await open_database(tmp_path / DATABASE_NAME, "lab", "db-1", NOON)
    yield database
    await database.close()
