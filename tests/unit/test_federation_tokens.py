"""Federation tokens: only a fresh one of a trusted cluster, meant for us, gets in; the rest is Unauthenticated."""

import base64
import hashlib
import hmac
import json
import math
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from iris_fed.auth.claims import SKEW_S
from iris_fed.auth.federation_tokens import (
    LIFETIME_S,
    MAX_TOKEN_BYTES,
    FederationSigner,
    FederationVerifier,
    TrustedRequester,
)
from iris_fed.auth.identity import Identity, Role, Source
from iris_fed.errors import Unauthenticated

NOW_S = 1_700_000_000
HUB, ROTATED, STRANGER = (Ed25519PrivateKey.generate() for _ in range(3))


class Noon:
    """A clock that stands still, and names from nowhere."""

    def __init__(self, now_s: float = NOW_S) -> None:
        self.now_s = now_s

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def token(self) -> str:
        return "j" * 32

    def jitter(self) -> float:
        return 0.0


def verifier(now_s: float = NOW_S, allow_missing_dst: bool = False) -> FederationVerifier:
    keys = (ROTATED.public_key(), HUB.public_key())
    moon = TrustedRequester((STRANGER.public_key(),))
    return FederationVerifier({"hub": TrustedRequester(keys, allow_missing_dst), "moon": moon}, "lab", Noon(now_s))


def claims(**changes: Any) -> dict[str, Any]:
    sound = {
        "iss": "hub",
        "sub": "hub",
        "aud": "federation",
        "role": "federation-peer",
        "dst": "lab",
        "jti": "j1",
        "iat": NOW_S,
        "exp": NOW_S + LIFETIME_S,
    }
    return {name: value for name, value in (sound | changes).items() if value is not None}


def signed(key: Ed25519PrivateKey = HUB, **changes: Any) -> str:
    return jwt.encode(claims(**changes), key, algorithm="EdDSA")


def encoded(part: object) -> str:
    text = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def raw(header: object, payload: object, key: Ed25519PrivateKey = HUB) -> str:
    """A token whose header and payload no library would write, truly signed."""
    message = f"{encoded(header)}.{encoded(payload)}"
    return f"{message}.{encoded(key.sign(message.encode()))}"


def refusal(token: str, check: FederationVerifier | None = None) -> str:
    with pytest.raises(Unauthenticated) as refused:
        (check or verifier()).verify(token)
    return refused.value.message


def test_a_minted_token_is_believed_by_the_cluster_it_names_and_by_no_other() -> None:
    token = FederationSigner(HUB, "hub", Noon(), Noon()).mint("lab")
    assert verifier().verify(token) == Identity("hub", "", Role.FEDERATION_PEER, "hub", source=Source.FEDERATION_TOKEN)
    other = FederationVerifier({"hub": TrustedRequester((HUB.public_key(),))}, "moon", Noon())
    assert "another cluster than moon" in refusal(token, other)


def test_any_configured_key_of_the_issuer_counts() -> None:
    assert verifier().verify(signed(ROTATED)).requester == "hub"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"exp": NOW_S - SKEW_S, "iat": NOW_S - 200}, "has expired"),
        ({"iat": NOW_S + SKEW_S + 1, "exp": NOW_S + 200}, "from the future"),
        ({"nbf": NOW_S + SKEW_S + 1}, "from the future"),
        ({"nbf": "soon"}, "from the future"),
        ({"exp": NOW_S + LIFETIME_S + 1}, f"longer than {LIFETIME_S} s"),
        ({"exp": NOW_S + 10**12}, f"longer than {LIFETIME_S} s"),
        ({"exp": 10**300}, "lacks iat or exp"),
        ({"exp": math.inf}, "lacks iat or exp"),
        ({"exp": math.nan}, "lacks iat or exp"),
        ({"iat": math.nan}, "lacks iat or exp"),
        ({"exp": None}, "lacks iat or exp"),
        ({"iat": None}, "lacks iat or exp"),
        ({"jti": None}, "lacks jti"),
        ({"exp": str(NOW_S)}, "lacks iat or exp"),
        ({"iat": True}, "lacks iat or exp"),
        ({"aud": "somewhere"}, "audience is not 'federation'"),
        ({"aud": None}, ""),
        ({"aud": ["federation"]}, "audience is not 'federation'"),
        ({"iss": "mars"}, "no key of the cluster that issued"),
        ({"iss": None}, "no key of the cluster that issued"),
        ({"iss": ["hub"]}, ""),
        ({"iss": "moon"}, "signature fits no configured key"),
        ({"sub": "moon"}, "sub or role"),
        ({"sub": None}, "sub or role"),
        ({"role": "admin"}, "sub or role"),
        ({"role": None}, "sub or role"),
        ({"dst": "moon"}, "meant for another cluster than lab"),
        ({"dst": ["lab"]}, "meant for another cluster than lab"),
        ({"dst": ""}, "meant for another cluster than lab"),
        ({"dst": None}, "set allow_missing_dst"),
    ],
)
def test_a_token_that_breaks_a_rule_is_refused_and_told_which(changes: dict[str, Any], words: str) -> None:
    payload = claims(**changes)
    assert words in refusal(raw({"alg": "EdDSA", "typ": "JWT"}, payload))


def test_a_token_without_a_destination_is_let_in_only_where_the_operator_says_so() -> None:
    assert verifier(allow_missing_dst=True).verify(signed(dst=None)).requester == "hub"
    assert "another cluster" in refusal(signed(dst="moon"), verifier(allow_missing_dst=True))


def test_clocks_may_differ_a_little() -> None:
    assert verifier(NOW_S + LIFETIME_S + SKEW_S - 1).verify(signed()).requester == "hub"
    assert verifier(NOW_S - SKEW_S).verify(signed()).requester == "hub"
    assert "expired" in refusal(signed(), verifier(NOW_S + LIFETIME_S + SKEW_S))
    assert "future" in refusal(signed(), verifier(NOW_S - SKEW_S - 1))


def test_a_token_of_a_key_that_is_not_the_issuers_is_refused() -> None:
    assert "fits no configured key" in refusal(signed(STRANGER))
    assert "fits no configured key" in refusal(signed(Ed25519PrivateKey.generate()))


def test_a_token_that_claims_to_need_no_signature_is_refused() -> None:
    for algorithm in ("none", "None", "NONE", ""):
        unsigned = f"{encoded({'alg': algorithm, 'typ': 'JWT'})}.{encoded(claims())}."
        refusal(unsigned)
        refusal(raw({"alg": algorithm}, claims()))


def test_the_public_key_is_no_shared_secret() -> None:
    pem = HUB.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    bare = HUB.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    message = f"{encoded({'alg': 'HS256', 'typ': 'JWT'})}.{encoded(claims())}"
    for secret in (pem, bare, pem.strip()):
        mac = hmac.new(secret, message.encode(), hashlib.sha256).digest()
        refusal(f"{message}.{encoded(mac)}")


@given(st.data())
def test_a_token_changed_anywhere_is_refused(data: st.DataObject) -> None:
    token = signed()
    at = data.draw(st.integers(0, len(token) - 3))
    letter = data.draw(st.sampled_from("ABCDwxyz0189-_."))
    changed = token[:at] + letter + token[at + 1 :]
    if changed != token:
        refusal(changed)


def test_an_oversized_token_is_refused_unread() -> None:
    assert refusal("x" * (MAX_TOKEN_BYTES + 1)) == "the federation token is too long"


def test_json_nested_as_deep_as_a_token_is_long_is_refused() -> None:
    deep = b"[" * 2_900
    refusal(f"{encoded({'alg': 'EdDSA'})}.{encoded(deep)}.")
    refusal(f"{encoded(deep)}.{encoded(claims())}.")
    refusal(raw({"alg": "EdDSA"}, deep))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(st.text(max_size=200) | st.text("eyJh.-_=", max_size=200))
def test_garbage_is_refused(text: str) -> None:
    refusal(text)


@given(JSON, JSON, st.binary(max_size=80))
def test_garbage_in_the_form_of_a_token_is_refused(header: object, payload: object, signature: bytes) -> None:
    refusal(f"{encoded(header)}.{encoded(payload)}.{encoded(signature)}")


@given(st.sampled_from(sorted(claims())), JSON.filter(lambda value: value is not None))
def test_a_signed_claim_of_any_other_value_is_refused(name: str, value: object) -> None:
    token = raw({"alg": "EdDSA", "typ": "JWT"}, claims() | {name: value})
    if name == "jti" and isinstance(value, str):
        assert verifier().verify(token).requester == "hub"
    else:
        refusal(token)


@given(st.dictionaries(st.sampled_from(["alg", "typ", "kid", "crit", "b64", "x"]), JSON, max_size=4))
def test_a_signed_token_with_a_strange_header_is_refused_or_believed_but_never_breaks(header: dict[str, Any]) -> None:
    token = raw({"alg": "EdDSA"} | header, claims())
    try:
        assert verifier().verify(token).requester == "hub"
    except Unauthenticated:
        assert header
