"""How many denied calls are written down."""

from iris_fed.auth.denials import MOST_OF_ALL, MOST_OF_ONE, WINDOW_MS, Denials

START = 1_000_000


def test_one_client_is_written_so_often_and_then_counted() -> None:
    denials = Denials()
    verdicts = [denials.judge("a", START) for _ in range(MOST_OF_ONE + 5)]
    assert [one.written for one in verdicts] == [True] * MOST_OF_ONE + [False] * 5
    assert [one.is_last for one in verdicts].index(True) == MOST_OF_ONE - 1
    assert denials.judge("b", START + 1).written


def test_what_was_left_out_is_told_once_in_the_window_after() -> None:
    denials = Denials()
    for _ in range(MOST_OF_ONE + 3):
        denials.judge("a", START)
    after = denials.judge("b", START + WINDOW_MS)
    assert (after.written, after.left_out) == (True, (("a", 3),))
    assert denials.judge("a", START + WINDOW_MS + 1) == (True, False, ())


def test_many_clients_together_fill_no_log_and_no_memory() -> None:
    denials = Denials()
    verdicts = [denials.judge(f"10.0.{n // 250}.{n % 250}", START) for n in range(5_000)]
    assert sum(one.written for one in verdicts) == MOST_OF_ALL
    told = denials.judge("a", START + WINDOW_MS).left_out
    assert len(told) <= MOST_OF_ALL + 1
    assert sum(count for _, count in told) == 5_000 - MOST_OF_ALL
    assert told[0][0] == ""


def test_a_clock_that_is_set_back_silences_nobody() -> None:
    denials = Denials()
    for _ in range(MOST_OF_ONE + 1):
        denials.judge("a", START)
    assert denials.judge("a", START - 1).written
