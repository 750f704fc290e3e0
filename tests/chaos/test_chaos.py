"""A short run of what `python -m tests.chaos` does at any length."""

from pathlib import Path

import pytest

from tests.chaos.chaos import Chaos


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_accepted_job_runs_as_often_as_the_records_say_whatever_happens(tmp_path: Path, seed: int) -> None:
    assert Chaos(tmp_path, seed, print).run(rounds=6) == []
