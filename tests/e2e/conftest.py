"""The clusters of a module's tests, and proof that they leave nothing behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.clusters import Cluster, Federation, end_all, start_federation


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    root = tmp_path_factory.mktemp("federation")
    both = start_federation(root)
    yield both
    end_all(root, (both.hub, both.lab))


@pytest.fixture(scope="module")
def hub(federation: Federation) -> Cluster:
    return federation.hub


@pytest.fixture(scope="module")
def lab(federation: Federation) -> Cluster:
    return federation.lab


@pytest.fixture
def own(tmp_path: Path) -> Iterator[list[Cluster]]:
    """A test's own clusters, in its own directory: it appends them, and they are gone in the end."""
    clusters: list[Cluster] = []
    yield clusters
    end_all(tmp_path, clusters)
