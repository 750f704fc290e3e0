"""How the tests share a machine: those that run real processes one after the other, the rest beside them."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROCESSES = frozenset({"chaos", "conformance", "e2e"})
"""Their processes would take each other's processor, and time-outs of what they run would tell of that."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        path = item.path.relative_to(HERE)
        group = "processes" if path.parts[0] in PROCESSES else str(path)
        item.add_marker(pytest.mark.xdist_group(group))
