"""How the tests share a machine: those that run real processes one after the other, the rest beside them."""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

PROCESSES = frozenset({"browser", "chaos", "conformance", "e2e", "slurm"})
"""Their processes would take each other's processor, and time-outs of what they run would tell of that."""


class OneMachine(LoadScopeScheduling):  # type: ignore[misc]
    """A module goes to one worker; all of those that run real processes to the same."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.split("::")[0]
        return "processes" if module.split("/")[1] in PROCESSES else module


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneMachine:
    return OneMachine(config, log)
