"""What to do with a submission whose name is taken (wire contract, "Existing job under the same id")."""

from enum import StrEnum

from iris_fed.model.states import TERMINAL_JOB_STATES, ExistingJobPolicy, JobState


class Existing(StrEnum):
    """REPLACE: the old one is over and gives way. KEEP: the old one is the answer. STOP: cancel it
    and wait for its end. REFUSE: the name is taken."""

    REPLACE = "REPLACE"
    KEEP = "KEEP"
    STOP = "STOP"
    REFUSE = "REFUSE"


def choose_existing(policy: ExistingJobPolicy, state: JobState) -> Existing:
    """For a job of the same owner in `state`."""
    if policy is ExistingJobPolicy.ERROR:
        return Existing.REFUSE
    if state in TERMINAL_JOB_STATES:
        return Existing.REPLACE
    if policy is ExistingJobPolicy.KEEP:
        return Existing.KEEP
    if policy is ExistingJobPolicy.RECREATE:
        return Existing.STOP
    return Existing.REFUSE
