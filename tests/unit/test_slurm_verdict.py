"""How an attempt ended: what it left, what Slurm says, and what we did ourselves, put together."""

from dataclasses import replace
from typing import Any

import pytest

from iris_fed.backends.base import AttemptEnd, Ended, EndKind
from iris_fed.backends.slurm import words
from iris_fed.backends.slurm.verdict import CAUSE_PATIENCE_S, SETTLE_S, Found, judge

LONG_S = 1_000.0


def result(kind: EndKind, exit_code: int | None = None, signal: int | None = None) -> Ended:
    return Ended("u", AttemptEnd(kind, exit_code, signal, "its own words"), 1, 2)


DONE = result(EndKind.EXITED, 0)
FAILED = result(EndKind.EXITED, 3)
TERMINATED = result(EndKind.SIGNALED, 143, 15)
KILLED = result(EndKind.SIGNALED, 137, 9)


def kind(**found: Any) -> EndKind | None:
    end = judge(Found(**found))
    return None if end is None else end.kind


@pytest.mark.parametrize("state", ["", "RUNNING", "COMPLETING", "COMPLETED", "CANCELLED", "NODE_FAIL"])
@pytest.mark.parametrize("own", [DONE, FAILED, result(EndKind.TIMED_OUT, 143, 15), result(EndKind.NOT_STARTED, 127)])
def test_what_ended_by_itself_ended_so_whatever_slurm_says_later(own: Ended, state: str) -> None:
    assert judge(Found(result=own, state=state)) == own.end


@pytest.mark.parametrize(("state", "expected"), [(state, kind) for state, (kind, _) in words.END_STATES.items()])
def test_every_end_state_of_slurm_means_something_for_what_left_no_result(state: str, expected: EndKind) -> None:
    end = judge(Found(state=state, began=True, for_s=LONG_S))
    assert end is not None
    assert (end.kind, end.message) == (expected, words.END_STATES[state][1])


def test_an_end_state_that_no_version_had_so_far_is_a_loss_that_names_it() -> None:
    end = judge(Found(state="EVAPORATED", for_s=LONG_S))
    assert end is not None
    assert (end.kind, "EVAPORATED" in end.message) == (EndKind.LOST, True)


@pytest.mark.parametrize("state", sorted(words.ACTIVE_STATES))
def test_what_slurm_still_has_is_not_over(state: str) -> None:
    assert judge(Found(state=state, for_s=LONG_S, cancelled=True)) is None


@pytest.mark.parametrize("state", ["CANCELLED", "TIMEOUT", "PREEMPTED", "OUT_OF_MEMORY", "NODE_FAIL"])
def test_a_signal_has_the_cause_that_slurm_names(state: str) -> None:
    for own in (TERMINATED, KILLED):
        end = judge(Found(result=own, state=state))
        assert end is not None
        assert (end.kind, end.exit_code) == (words.END_STATES[state][0], own.end.exit_code)


def test_one_that_was_told_to_end_and_obeyed_has_not_simply_ended() -> None:
    assert kind(result=DONE, told=True, state="PREEMPTED") is not EndKind.PREEMPTED
    assert kind(result=FAILED, told=True, state="PREEMPTED") is EndKind.PREEMPTED
    assert kind(result=FAILED, told=True, state="CANCELLED") is EndKind.CANCELLED


def test_while_slurm_has_not_said_why_one_waits_but_not_for_ever() -> None:
    assert kind(result=TERMINATED, told=True, state="COMPLETING") is None
    assert kind(result=TERMINATED, told=True, state="COMPLETING", for_s=CAUSE_PATIENCE_S) is EndKind.CANCELLED
    assert kind(result=KILLED, state="RUNNING") is None
    assert kind(result=KILLED, state="RUNNING", for_s=SETTLE_S) is EndKind.SIGNALED


def test_what_we_killed_is_killed_whatever_slurm_calls_it() -> None:
    for own in (TERMINATED, KILLED, replace(FAILED)):
        assert kind(result=own, told=True, cancelled=True, state="CANCELLED") is EndKind.KILLED
    assert kind(cancelled=True, state="CANCELLED") is EndKind.KILLED
    assert kind(cancelled=True, began=True, state="CANCELLED", for_s=SETTLE_S) is EndKind.KILLED
    assert kind(cancelled=True, state="") is EndKind.KILLED


def test_a_kill_that_came_too_late_does_not_change_the_end() -> None:
    assert kind(result=DONE, cancelled=True, state="CANCELLED") is EndKind.EXITED


def test_a_result_may_become_visible_a_little_after_the_job_has_ended() -> None:
    assert kind(state="NODE_FAIL", began=True) is None
    assert kind(state="COMPLETED", began=True, for_s=SETTLE_S, wait_s=60) is None
    assert kind(state="COMPLETED", began=True, for_s=60, wait_s=60) is EndKind.LOST


def test_what_slurm_does_not_know_is_lost_after_its_time_and_once_the_accounting_was_asked() -> None:
    assert kind(began=True, for_s=59, wait_s=60) is None
    assert kind(began=True, for_s=60, wait_s=60, accounted=False) is None
    end = judge(Found(began=True, for_s=60, wait_s=60, words="python3: not found"))
    assert end is not None
    assert (end.kind, end.message.endswith("its job said: python3: not found")) == (EndKind.LOST, True)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("Resources", "for machines to become free"),
        ("(Priority)", "jobs of higher priority come first"),
        ("None", "Slurm has not looked at it yet"),
        ("ReqNodeNotAvail, UnavailableNodes:n1,n2", "machines that it needs are down, drained or reserved (n1,n2)"),
        ("QOSMaxGRESPerUser", "a limit of its QOS is reached (QOSMaxGRESPerUser)"),
        ("QOSGrpCpuLimit", "a limit of its QOS is reached (QOSGrpCpuLimit)"),
        ("AssocGrpCPUMinutesLimit", "a limit of its account is reached (AssocGrpCPUMinutesLimit)"),
        ("SomethingOfANewVersion", "Slurm says SomethingOfANewVersion"),
    ],
)
def test_reasons_for_waiting_are_told_in_words(reason: str, told: str) -> None:
    assert words.reason_in_words(reason) == told


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        ("Unable to contact slurm controller (connect failure)", True),
        ("Batch job submission failed: Socket timed out on send/recv operation", True),
        ("Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)", True),
        ("Slurm temporarily unable to accept job, sleeping and retrying", True),
        ("Batch job submission failed: Requested node configuration is not available", False),
        ("Batch job submission failed: Invalid account or account/partition combination specified", False),
        ("invalid partition specified: nope", False),
    ],
)
def test_what_may_go_by_itself_is_told_from_a_refusal(error: str, passes: bool) -> None:
    assert words.is_passing(error) is passes
