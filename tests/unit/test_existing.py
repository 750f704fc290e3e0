"""What to do with a submission whose name is taken: the whole table."""

import pytest

from iris_fed.decide.existing import Existing, choose_existing
from iris_fed.model.states import TERMINAL_JOB_STATES, ExistingJobPolicy, JobState

EXPECTED = {
    # policy: (the old one is unfinished, it is finished)
    ExistingJobPolicy.UNSPECIFIED: (Existing.REFUSE, Existing.REPLACE),
    ExistingJobPolicy.ERROR: (Existing.REFUSE, Existing.REFUSE),
    ExistingJobPolicy.KEEP: (Existing.KEEP, Existing.REPLACE),
    ExistingJobPolicy.RECREATE: (Existing.STOP, Existing.REPLACE),
}


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("policy", ExistingJobPolicy)
def test_the_policy_decides_what_a_taken_name_means(policy: ExistingJobPolicy, state: JobState) -> None:
    assert choose_existing(policy, state) is EXPECTED[policy][state in TERMINAL_JOB_STATES]
