import pytest

from iris_fed.cli import formats


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (None, "-"),
        (-5, "0ms"),
        (400, "400ms"),
        (1_400, "1.4s"),
        (12_400, "12s"),
        (185_000, "3m05s"),
        (7_800_000, "2h10m"),
        (3 * 86_400_000 + 4 * 3_600_000, "3d04h"),
    ],
)
def test_a_duration_is_short_and_exact_enough(milliseconds: int | None, shown: str) -> None:
    assert formats.duration(milliseconds) == shown


def test_an_age_counts_from_then_and_a_time_of_zero_is_never() -> None:
    assert formats.age(100_000, 40_000) == "1m00s"
    assert formats.age(100_000, 0) == "never"


@pytest.mark.parametrize(
    ("amount", "shown"), [(0, "0 B"), (512, "512 B"), (1500, "1.5 kB"), (8 * 10**9, "8 GB"), (999_900, "1 MB")]
)
def test_a_size_is_shown_in_powers_of_a_thousand(amount: int, shown: str) -> None:
    assert formats.size(amount) == shown


def test_a_place_is_cluster_and_backend_or_a_dash() -> None:
    assert formats.place("gpu-lab", "local") == "gpu-lab/local"
    assert formats.place("", "local") == "local"
    assert formats.place("", "") == "-"
