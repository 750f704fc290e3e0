"""How the tests share a machine: two lines of those that run real processes, the rest where there is room."""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

LINES = {"browser": 1, "conformance": 1, "slurm": 1, "chaos": 2, "e2e": 2}
"""Of each line one module runs at a time: more would take each other's processor, and the time-outs of what they
run would tell of that."""


class OneMachine(LoadScopeScheduling):  # type: ignore[misc]
    """A module goes to one worker, and so does a line of modules."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.split("::")[0]
        line = LINES.get(module.split("/")[1])
        return f"line {line}" if line else module


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneMachine:
    return OneMachine(config, log)
