"""Nonces that their maker can tell from all others."""

from hypothesis import given
from hypothesis import strategies as st

from iris_fed.auth.nonces import NonceMint

MINT = NonceMint(b"0123456789abcdef")
HEX = st.text("0123456789abcdef", min_size=1, max_size=32)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@given(HEX, NAMES, NAMES)
def test_a_minted_nonce_is_recognised_for_its_peer_and_job(random_part: str, peer: str, job: str) -> None:
    nonce = MINT.mint(random_part, peer, job)
    assert nonce.startswith(random_part + ".")
    assert MINT.minted(nonce, peer, job)
    assert not MINT.minted(nonce, peer + "x", job)
    assert not MINT.minted(nonce, peer, job + "x")
    assert not NonceMint(b"another key, long").minted(nonce, peer, job)


@given(st.text(max_size=80))
def test_what_was_not_minted_here_is_not_recognised(text: str) -> None:
    assert not MINT.minted(text, "lab", "/a/b")


def test_parts_cannot_be_shifted_between_peer_and_job() -> None:
    assert not MINT.minted(MINT.mint("ab", "lab", "x/a/b"), "labx", "/a/b")


@given(HEX, st.integers(0, 31), st.sampled_from("0123456789abcdef"))
def test_a_changed_mac_is_not_recognised(random_part: str, at: int, digit: str) -> None:
    nonce = MINT.mint(random_part, "lab", "/a/b")
    head, _, mac = nonce.partition(".")
    changed = f"{head}.{mac[:at]}{digit}{mac[at + 1 :]}"
    assert MINT.minted(changed, "lab", "/a/b") == (changed == nonce)
