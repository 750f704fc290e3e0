"""A task's own token cannot be made by anybody but its controller."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iris_fed.auth.task_tokens import PREFIX, TaskTokens

TOKENS = TaskTokens(b"k" * 32)


@given(st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1, max_size=64))
def test_a_token_names_its_attempt_whatever_the_uid_looks_like(uid: str) -> None:
    assert TOKENS.attempt_of(TOKENS.mint(uid)) == uid


@pytest.mark.parametrize(
    "token",
    [
        "",
        PREFIX,
        "a1",
        f"{PREFIX}a1",
        f"{PREFIX}a1_",
        TOKENS.mint("a1").removeprefix(PREFIX),
        TOKENS.mint("a1").replace("a1", "a2", 1),
        TOKENS.mint("a1")[:-1],
        TOKENS.mint("a1") + "0",
        TOKENS.mint("a1").upper(),
        f"{PREFIX}a1_\xe9",
        TaskTokens(b"x" * 32).mint("a1"),
    ],
)
def test_what_this_controller_did_not_make_is_no_token(token: str) -> None:
    assert TOKENS.attempt_of(token) is None


def test_the_tokens_of_two_attempts_have_nothing_in_common_but_their_form() -> None:
    one, two = TOKENS.mint("a1").rpartition("_")[2], TOKENS.mint("a2").rpartition("_")[2]
    assert len(one) == len(two) >= 32
    assert one != two
