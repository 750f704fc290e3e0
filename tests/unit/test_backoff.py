"""How long to wait before trying again."""

from hypothesis import given
from hypothesis import strategies as st

from iris_fed.decide.backoff import backoff_ms

JITTER = st.floats(0, 1, exclude_max=True)


@given(st.integers(-5, 10**9), st.integers(1, 10_000), st.integers(1, 10**7), JITTER)
def test_a_wait_is_never_longer_than_the_bound_and_at_least_half_of_it_counts(
    tries: int, base: int, most: int, jitter: float
) -> None:
    full = min(most, base * 2 ** min(max(tries, 1) - 1, 30))
    assert full // 2 <= backoff_ms(tries, base, most, jitter) <= full <= most


@given(st.integers(1, 40), JITTER)
def test_waits_never_get_shorter_with_more_tries(tries: int, jitter: float) -> None:
    assert backoff_ms(tries, 500, 60_000, jitter) <= backoff_ms(tries + 1, 500, 60_000, jitter)


def test_waits_double_until_the_bound() -> None:
    assert [backoff_ms(n, 1_000, 10_000, 0.5) for n in range(1, 7)] == [750, 1_500, 3_000, 6_000, 7_500, 7_500]


def test_those_who_failed_together_do_not_come_back_together() -> None:
    assert backoff_ms(3, 1_000, 60_000, 0.0) == 2_000
    assert backoff_ms(3, 1_000, 60_000, 0.999) > 3_900
