"""From headers to who asks: no credential, no way in."""

import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from iris_fed.auth.authenticator import ADMIN_TOKEN_FILE, Authenticator, ensure_admin_token
from iris_fed.auth.federation_tokens import FederationSigner, FederationVerifier, TrustedRequester
from iris_fed.auth.identity import Role
from iris_fed.auth.keys import private_key_from_pem, public_key_from_pem
from iris_fed.clock import SystemClock, SystemEntropy
from iris_fed.errors import ConfigError, Unauthenticated

KEY = Ed25519PrivateKey.generate()
TOKEN = "irisfed_admin_secret"
GATE = Authenticator(
    TOKEN, "root", FederationVerifier({"hub": TrustedRequester((KEY.public_key(),))}, "lab", SystemClock())
)


def test_the_admin_token_makes_the_admin() -> None:
    for scheme in ("Bearer", "bearer", "BEARER"):
        identity = GATE.authenticate({"authorization": f"{scheme} {TOKEN}"})
        assert (identity.role, identity.user, identity.requester) == (Role.ADMIN, "root", "")


def test_a_federation_token_makes_a_peer_that_owns_no_user() -> None:
    token = FederationSigner(KEY, "hub", SystemClock(), SystemEntropy()).mint("lab")
    identity = GATE.authenticate({"authorization": f"Bearer {token}"})
    assert (identity.role, identity.user, identity.requester) == (Role.FEDERATION_PEER, "", "hub")


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({}, "carries no credential"),
        ({"cookie": TOKEN, "x-forwarded-for": "127.0.0.1", "proxy-authorization": f"Bearer {TOKEN}"}, "no credential"),
        ({"authorization": ""}, "not of the form"),
        ({"authorization": "Bearer"}, "not of the form"),
        ({"authorization": "Bearer   "}, "not of the form"),
        ({"authorization": f"Basic {TOKEN}"}, "not of the form"),
        ({"authorization": TOKEN}, "not of the form"),
        ({"authorization": f"Bearer {TOKEN}x"}, "not this controller's"),
        ({"authorization": f"Bearer {TOKEN[:-1]}"}, "not this controller's"),
        ({"authorization": "Bearer irisfed_admin_"}, "not this controller's"),
        ({"authorization": "Bearer irisfed_admin_\xe9"}, "not this controller's"),
        ({"authorization": "Bearer secret"}, "neither this controller's nor a federation token"),
    ],
)
def test_anything_else_is_refused_and_told_why(headers: dict[str, str], words: str) -> None:
    with pytest.raises(Unauthenticated, match=words):
        GATE.authenticate(headers)


@given(st.text(st.characters(max_codepoint=255), max_size=60))
def test_no_header_gets_in_or_breaks_the_gate(value: str) -> None:
    with pytest.raises(Unauthenticated):
        GATE.authenticate({"authorization": value})
    with pytest.raises(Unauthenticated):
        GATE.authenticate({"authorization": f"Bearer {value}"})


def test_the_admin_token_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    token = ensure_admin_token(tmp_path)
    path = tmp_path / ADMIN_TOKEN_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    assert ensure_admin_token(tmp_path) == token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(token) > 50
    assert [entry.name for entry in tmp_path.iterdir()] == [ADMIN_TOKEN_FILE]


@pytest.mark.parametrize("left", ["", "\n", "hunter2\n"])
def test_a_token_file_cut_short_is_replaced(tmp_path: Path, left: str) -> None:
    (tmp_path / ADMIN_TOKEN_FILE).write_text(left)
    token = ensure_admin_token(tmp_path)
    assert token.startswith("irisfed_admin_")
    assert ensure_admin_token(tmp_path) == token


@pytest.mark.parametrize("pem", ["", "nonsense", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])
def test_what_is_no_key_is_refused_by_its_name(pem: str) -> None:
    with pytest.raises(ConfigError, match=r"^auth\.key: not an Ed25519 private key"):
        private_key_from_pem(pem, "auth.key")
    with pytest.raises(ConfigError, match=r"^auth\.peers\.hub: not an Ed25519 public key"):
        public_key_from_pem(pem, "auth.peers.hub")
