"""Seeds that must run without a violation, and the same way each time. `python -m tests.simulation` runs any number."""

import os
import time
from pathlib import Path

import pytest

from tests.simulation.run import Found, run_seeds
from tests.simulation.simulation import DEFAULT_ACTIONS

SAVED = Path(__file__).with_name("seeds.txt")
FIRST_FRESH = 1_000
MOST_FRESH = 400
AT_A_TIME = 20
# Beside other tests one processor is what it gets.
JOBS = 1 if "PYTEST_XDIST_WORKER" in os.environ else 2
BUDGET_S = float(os.environ.get("SIMULATION_BUDGET_S", "120"))
pytestmark = pytest.mark.timeout(BUDGET_S + 240)


def saved_seeds() -> list[int]:
    """The first word of each line that is no comment."""
    lines = [line.split("#")[0].split() for line in SAVED.read_text().splitlines()]
    return [int(words[0]) for words in lines if words]


def violations(found: list[Found]) -> list[str]:
    return [
        f"{one['violation']}\n" + "\n".join(one["events"][-20:]) + f"\nreplay: python -m tests.simulation {one['seed']}"
        for one in found
        if one["violation"]
    ]


def test_a_seed_runs_the_same_way_in_two_processes() -> None:
    alone = [next(iter(run_seeds([seed], DEFAULT_ACTIONS, 1))) for seed in (2, 9)]
    in_a_row = list(run_seeds([5, 9, 2], DEFAULT_ACTIONS, 1))
    assert alone[0]["events"] == in_a_row[2]["events"]
    assert alone[1]["events"] == in_a_row[1]["events"]
    assert alone[0]["trace_hash"] != alone[1]["trace_hash"]


def test_seeds_that_once_found_a_fault_find_none() -> None:
    assert violations(list(run_seeds(saved_seeds(), DEFAULT_ACTIONS, JOBS))) == []


def test_no_promise_is_broken_in_as_many_seeds_as_there_is_time_for() -> None:
    ends = time.monotonic() + BUDGET_S
    met: set[str] = set()
    done = 0
    while time.monotonic() < ends and done < MOST_FRESH:
        first = FIRST_FRESH + done
        found = list(run_seeds(list(range(first, first + AT_A_TIME)), DEFAULT_ACTIONS, JOBS))
        assert violations(found) == []
        met |= {kind for one in found for kind in one["counts"]}
        done += AT_A_TIME
    # Faults do happen: a network that is always well would find nothing.
    assert {"crash", "cut", "breaks", "again", "garbage", "jump", "outage", "wipe", "kill"} <= met
