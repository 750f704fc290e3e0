"""A task may say that it is over while its job runs on: that is found out, and ended."""

from iris_fed.backends.slurm.lingering import PATIENCE_S, Lingering
from iris_fed.backends.slurm.parse import SlurmJob

JOB = SlurmJob("7", "a", "RUNNING")
KNOWN = {"a"}


def test_a_job_that_runs_on_after_its_end_is_ended_and_again_until_it_is_gone() -> None:
    lingering = Lingering()
    lingering.add("a", 0.0)
    assert lingering.take([JOB], KNOWN, 1.0, 1.0) == []
    assert lingering.take([JOB], KNOWN, PATIENCE_S, PATIENCE_S) == ["7"]
    assert lingering.take([JOB], KNOWN, PATIENCE_S + 1, PATIENCE_S + 1) == []
    assert lingering.take([JOB], KNOWN, 2 * PATIENCE_S, 2 * PATIENCE_S) == ["7"]
    assert lingering.may_run("a")
    assert lingering.take([], KNOWN, 2 * PATIENCE_S + 1, 2 * PATIENCE_S + 1) == []
    assert not lingering.may_run("a")
    assert not lingering.names


def test_an_answer_from_before_the_end_does_not_say_that_the_job_is_gone() -> None:
    lingering = Lingering()
    lingering.add("a", 5.0)
    lingering.take([], KNOWN, 4.0, 6.0)
    assert lingering.may_run("a")


def test_before_slurm_has_answered_every_job_may_run() -> None:
    lingering = Lingering()
    assert lingering.may_run("a")
    lingering.take([], (), 1.0, 1.0)
    assert not lingering.may_run("a")


def test_after_a_restart_a_job_of_an_ended_attempt_is_found_and_ended_and_a_strangers_is_not() -> None:
    lingering = Lingering()
    jobs = [JOB, SlurmJob("8", "theirs", "RUNNING")]
    assert lingering.take(jobs, KNOWN, 0.0, 0.0) == []
    assert lingering.take(jobs, KNOWN, PATIENCE_S, PATIENCE_S) == ["7"]
    assert not lingering.may_run("theirs")
