"""When everything is asked for instead of the news."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iris_fed.decide.asking import AGAIN_S, EVERY_S, MAX_REFUSALS, FullSetTimer, Heard, went_back

LOST_AFTER_S = 600.0


def heard(**changes: bool) -> Heard:
    quiet = dict.fromkeys(Heard.__dataclass_fields__, False)
    return Heard(**(quiet | changes))


def timer() -> FullSetTimer:
    """One that has just had a full set, at 1000."""
    fresh = FullSetTimer(LOST_AFTER_S)
    fresh.on_answer(1000.0, heard(in_full_set=True, ends_full_set=True))
    return fresh


def test_quiet_answers_ask_for_nothing() -> None:
    one = timer()
    one.on_answer(1001.0, heard())
    assert one.due == math.inf
    assert one.wait_s(1001.0, 20.0) == 20.0


def test_another_database_is_read_whole_at_once() -> None:
    one = timer()
    one.on_answer(1005.0, heard(another=True))
    assert one.due == 1005.0
    assert one.wait_s(1005.0, 20.0) == 0.0


def test_another_database_that_shows_within_a_full_set_asks_for_no_second_one() -> None:
    one = timer()
    one.on_answer(1005.0, heard(another=True, in_full_set=True, ends_full_set=True))
    assert one.due == math.inf


def test_a_missing_job_is_asked_for_several_times_within_its_grace() -> None:
    one = timer()
    one.on_answer(1010.0, heard(missing=True, in_full_set=True, ends_full_set=True))
    assert 1010.0 < one.due < 1010.0 + LOST_AFTER_S / 2


def test_what_full_sets_do_not_settle_is_asked_for_ever_more_seldom() -> None:
    one, pauses = timer(), []
    now = 1000.0
    one.on_answer(now, heard(unsettled=True))
    for _ in range(12):
        assert one.due > now
        now = one.due
        one.on_answer(now, heard(unsettled=True, in_full_set=True, ends_full_set=True))
        pauses.append(one.due - now)
    assert pauses[0] == AGAIN_S
    assert pauses == sorted(pauses)
    assert pauses[-1] == EVERY_S
    one.on_answer(one.due, heard(in_full_set=True, ends_full_set=True))
    assert one.due == math.inf


def test_a_quiet_answer_does_not_take_back_that_a_full_set_is_due() -> None:
    one = timer()
    one.on_answer(1010.0, heard(unsettled=True))
    due = one.due
    one.on_answer(1011.0, heard())
    assert one.due == due == 1000.0 + AGAIN_S


def test_a_cursor_refused_several_times_in_a_row_is_given_up() -> None:
    one = timer()
    for n in range(MAX_REFUSALS):
        assert one.due == math.inf
        assert one.hurried
        one.on_cursor(1001.0 + n, refused=True)
    assert one.due <= 1001.0 + MAX_REFUSALS
    assert not one.hurried
    one.on_cursor(1010.0, refused=False)
    assert one.hurried


def test_a_peer_without_extensions_is_read_whole_each_hour_and_after_every_interruption() -> None:
    one = timer()
    one.on_answer(1000.0, heard(plain=True, in_full_set=True, ends_full_set=True))
    assert one.due == 1000.0 + EVERY_S
    one.on_interruption(1200.0, plain=True)
    assert one.due == 1200.0
    other = timer()
    other.on_interruption(1200.0, plain=False)
    assert other.due == math.inf


@pytest.mark.parametrize(
    ("sent", "got", "back"),
    [("17", "16", True), ("17", "17", False), ("9", "10", False), ("17.a", "16.a", False), ("", "5", False)],
)
def test_only_a_plain_number_goes_back(sent: str, got: str, back: bool) -> None:
    assert went_back(sent, got) is back


FLAGS = st.fixed_dictionaries({name: st.booleans() for name in Heard.__dataclass_fields__})


@given(st.lists(st.tuples(st.floats(0, 10_000), FLAGS), max_size=30))
def test_whatever_is_heard_a_wait_is_never_negative_nor_beyond_its_bound(
    steps: list[tuple[float, dict[str, bool]]],
) -> None:
    one, now = FullSetTimer(LOST_AFTER_S), 0.0
    for passed, flags in steps:
        now += passed
        one.on_answer(now, heard(**flags))
        assert 0.0 <= one.wait_s(now, 20.0) <= 20.0
        if flags["unsettled"]:
            assert one.due - now <= EVERY_S
