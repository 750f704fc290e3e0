"""The tables of legal changes, each walked whole."""

from collections.abc import Mapping
from typing import Any

import pytest

from iris_fed.model.states import (
    ATTEMPT_TRANSITIONS,
    JOB_TRANSITIONS,
    LIVE_TASK_STATES,
    RECEIVED_TRANSITIONS,
    SENT_TRANSITIONS,
    TASK_TRANSITIONS,
    TERMINAL_JOB_STATES,
    TERMINAL_TASK_STATES,
    JobState,
    ReceivedState,
    SentState,
    TaskState,
    job_ended,
    task_ended,
)

TABLES: Mapping[str, tuple[Mapping[Any, frozenset[Any]], frozenset[Any], Any]] = {
    "job": (JOB_TRANSITIONS, frozenset(TERMINAL_JOB_STATES), JobState.PENDING),
    "task": (TASK_TRANSITIONS, frozenset(TERMINAL_TASK_STATES), TaskState.PENDING),
    "attempt": (ATTEMPT_TRANSITIONS, frozenset(TERMINAL_TASK_STATES), TaskState.ASSIGNED),
    "sent": (SENT_TRANSITIONS, frozenset({SentState.CLOSED}), SentState.PENDING_HANDOFF),
    "received": (
        RECEIVED_TRANSITIONS,
        frozenset({ReceivedState.FENCED, ReceivedState.SUPERSEDED}),
        ReceivedState.ADMITTED,
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_nothing_leads_out_of_an_end(name: str) -> None:
    table, ends, _ = TABLES[name]
    assert {state for state, after in table.items() if not after} == ends


@pytest.mark.parametrize("name", TABLES)
def test_every_change_leads_to_a_state_with_a_row_of_its_own(name: str) -> None:
    table, _, _ = TABLES[name]
    assert all(after <= table.keys() for after in table.values())
    assert all(state not in after for state, after in table.items())


@pytest.mark.parametrize("name", TABLES)
def test_an_end_can_be_reached_from_every_state(name: str) -> None:
    table, ends, _ = TABLES[name]
    for state in table.keys() - ends:
        assert _reachable(table, state) & ends


def test_every_job_and_task_state_has_a_row() -> None:
    assert JOB_TRANSITIONS.keys() == set(JobState)
    assert TASK_TRANSITIONS.keys() == set(TaskState)
    assert ATTEMPT_TRANSITIONS.keys() == set(TaskState) - {TaskState.PENDING}
    assert SENT_TRANSITIONS.keys() == set(SentState)
    assert RECEIVED_TRANSITIONS.keys() == set(ReceivedState)


def test_a_task_is_waiting_live_or_over_and_nothing_else() -> None:
    assert {TaskState.PENDING} | LIVE_TASK_STATES | TERMINAL_TASK_STATES == set(TaskState)
    assert not LIVE_TASK_STATES & TERMINAL_TASK_STATES


def test_only_a_live_task_goes_back_to_waiting() -> None:
    assert {s for s, after in TASK_TRANSITIONS.items() if TaskState.PENDING in after} == LIVE_TASK_STATES


def test_a_fence_is_never_lifted_and_a_superseded_incarnation_never_comes_back() -> None:
    reachable = _reachable(RECEIVED_TRANSITIONS, ReceivedState.ADMITTED)
    assert ReceivedState.FENCED not in reachable
    assert ReceivedState.ADMITTED not in reachable


@pytest.mark.parametrize("state", JobState)
def test_a_job_has_ended_in_a_terminal_state_and_in_no_other(state: JobState) -> None:
    assert job_ended(state) == (not JOB_TRANSITIONS[state])


@pytest.mark.parametrize("state", TaskState)
def test_a_task_has_ended_in_a_terminal_state_and_in_no_other(state: TaskState) -> None:
    assert task_ended(state) == (not TASK_TRANSITIONS[state])


def _reachable(table: Mapping[Any, frozenset[Any]], start: Any) -> set[Any]:
    found: set[Any] = set()
    todo = [start]
    while todo:
        for after in table[todo.pop()] - found:
            found.add(after)
            todo.append(after)
    return found
