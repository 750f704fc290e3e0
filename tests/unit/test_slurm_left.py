"""What lies in an attempt's place was written by its keeper, or by a task that would like to be believed."""

from typing import Any

import pytest

from iris_fed.backends.base import Building, EndKind, Running
from iris_fed.backends.slurm import left
from iris_fed.model.limits import MAX_ERROR_CHARS
from iris_fed.model.resources import Usage

EXIT: dict[str, Any] = {
    "kind": "EXITED",
    "exit_code": 3,
    "signal": None,
    "message": "exited with code 3",
    "started_ms": 1,
    "finished_ms": 2,
    "usage": {"memory_bytes": 0, "memory_peak_bytes": 7},
}
PLACE: dict[str, Any] = {"node": "n1", "address": "n1", "devices": [0, 1], "ports": {"web": 80}}
DAMAGED = (KeyError, TypeError, ValueError, AttributeError)


def test_a_keepers_result_is_read_whole() -> None:
    ended, told = left.result("u", EXIT, told=False)
    assert (ended.end.kind, ended.end.exit_code, ended.started_ms, ended.finished_ms) == (EndKind.EXITED, 3, 1, 2)
    assert (ended.usage.memory_peak_bytes, told) == (7, False)


def test_who_was_told_to_end_ended_by_code_or_signal_and_was_told() -> None:
    for exit_code, number, kind in ((143, 15, EndKind.SIGNALED), (0, None, EndKind.EXITED)):
        ended, told = left.result("u", EXIT | {"kind": "TOLD", "exit_code": exit_code, "signal": number}, told=True)
        assert (ended.end.kind, told) == (kind, True)


def test_who_had_succeeded_just_before_it_was_told_has_succeeded() -> None:
    assert left.result("u", EXIT | {"exit_code": 0}, told=True)[1] is False


def test_it_builds_until_its_setup_is_done_and_then_runs() -> None:
    assert left.runs("u", None, None) is None
    assert left.runs("u", PLACE, None) is None
    assert left.runs("u", PLACE, {"started_ms": 5, "building": True}) == Building(
        "u", 5, "n1", "n1", (0, 1), {"web": 80}
    )
    assert left.runs("u", PLACE, {"started_ms": 5}) == Running("u", 5, "n1", "n1", (0, 1), {"web": 80})


@pytest.mark.parametrize(
    "scribble",
    [
        {"kind": "INVENTED"},
        {"exit_code": 256},
        {"exit_code": "0"},
        {"exit_code": True},
        {"signal": -1},
        {"started_ms": 2**80},
        {"finished_ms": None},
        {"usage": {"memory_bytes": 1e300}},
        {"usage": []},
    ],
)
def test_a_result_that_no_keeper_wrote_is_none(scribble: dict[str, Any]) -> None:
    with pytest.raises(DAMAGED):
        left.result("u", EXIT | scribble, told=False)


@pytest.mark.parametrize(
    "scribble", [{"devices": 3}, {"devices": ["x"]}, {"ports": {"a": 99_999}}, {"ports": []}, {"devices": [-1]}]
)
def test_a_place_that_no_keeper_wrote_is_none(scribble: dict[str, Any]) -> None:
    with pytest.raises(DAMAGED):
        left.runs("u", PLACE | scribble, {"started_ms": 5})


def test_measures_are_numbers_and_what_is_not_known_of_is_passed_over() -> None:
    assert left.usage({"memory_bytes": 5, "invented": "x"}) == Usage(memory_bytes=5)
    with pytest.raises(DAMAGED):
        left.usage({"memory_bytes": "much"})


@pytest.mark.parametrize("said", ["\ud800", "\0", "\x1b[2J", "two\nlines", "\u202e"])
def test_characters_that_cannot_be_stored_or_shown_are_replaced_and_lose_nobodys_end(said: str) -> None:
    ended, _ = left.result("u", EXIT | {"message": f"a{said}z" + "x" * 10_000}, told=False)
    assert ended.end.message.startswith("a")
    assert ended.end.message.isprintable()
    assert ended.end.message.encode()
    assert len(ended.end.message) == MAX_ERROR_CHARS
    seen = left.runs("u", {**PLACE, "node": said, "address": said, "ports": {said: 80}}, {"started_ms": 5})
    assert isinstance(seen, Running)
    assert all(text.isprintable() for text in (seen.node, seen.address, *seen.ports))


@pytest.mark.parametrize("kind", ["PREEMPTED", "NO_CAPACITY", "KILLED", "CANCELLED"])
def test_a_task_does_not_say_that_somebody_else_has_ended_it(kind: str) -> None:
    with pytest.raises(DAMAGED):
        left.result("u", EXIT | {"kind": kind}, told=False)


def test_words_are_texts() -> None:
    with pytest.raises(DAMAGED):
        left.result("u", EXIT | {"message": ["x"]}, told=False)
    with pytest.raises(DAMAGED):
        left.runs("u", PLACE | {"node": {}}, {"started_ms": 5})
