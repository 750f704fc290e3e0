"""User tokens: this cluster's signature, a row that stands, a person who may still be what it says."""

import hashlib
import hmac
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from iris_fed.auth.claims import SKEW_S
from iris_fed.auth.federation_tokens import FederationSigner
from iris_fed.auth.identity import Role, Source
from iris_fed.auth.people import Listed, People
from iris_fed.auth.user_tokens import AUDIENCE, MAX_TOKEN_BYTES, UserTokenSigner, UserTokenVerifier
from iris_fed.errors import FailedPrecondition, PermissionDenied, Unauthenticated
from iris_fed.model.tokens import UserToken
from tests.unit.test_federation_tokens import JSON, NOW_S, Noon, encoded

KEY, OLD, STRANGER = (Ed25519PrivateKey.generate() for _ in range(3))
DAY_S = 86_400
LIFETIME_S = 30 * DAY_S


def row(**changes: Any) -> UserToken:
    sound: dict[str, Any] = {
        "token_id": "t1",
        "principal": "alice@lab.org",
        "role": "user",
        "note": "",
        "created_by": "root",
        "created_ms": NOW_S * 1000,
        "expires_ms": (NOW_S + DAY_S) * 1000,
    }
    return UserToken(**(sound | changes))


class Rows:
    def __init__(self, *rows: UserToken) -> None:
        self.rows = {one.token_id: one for one in rows}
        self.asked = 0

    async def by_id(self, token_id: str) -> UserToken | None:
        self.asked += 1
        return self.rows.get(token_id)


def verifier(
    rows: Rows | None = None,
    now_s: float = NOW_S,
    people: People | None = None,
    keys: tuple[Ed25519PrivateKey, ...] = (KEY, OLD),
) -> UserTokenVerifier:
    rows = rows or Rows(row())
    people = people or People("root", "lab.org")
    publics = [key.public_key() for key in keys]
    return UserTokenVerifier("lab", publics, people, rows.by_id, Noon(now_s), LIFETIME_S)


def claims(**changes: Any) -> dict[str, Any]:
    sound = {
        "iss": "lab",
        "sub": "alice@lab.org",
        "aud": AUDIENCE,
        "role": "user",
        "jti": "t1",
        "iat": NOW_S,
        "exp": NOW_S + DAY_S,
    }
    return {name: value for name, value in (sound | changes).items() if value is not None}


def signed(key: Ed25519PrivateKey = KEY, header: dict[str, Any] | None = None, **changes: Any) -> str:
    message = f"{encoded({'alg': 'EdDSA', 'typ': 'JWT'} | (header or {}))}.{encoded(claims(**changes))}"
    return f"{message}.{encoded(key.sign(message.encode()))}"


async def refusal(token: str, check: UserTokenVerifier | None = None) -> str:
    with pytest.raises(Unauthenticated) as refused:
        await (check or verifier()).verify(token)
    return refused.value.message


async def test_a_token_speaks_for_its_person_until_it_expires() -> None:
    token = UserTokenSigner(KEY, "lab").sign(row())
    identity = await verifier().verify(token)
    assert (identity.principal, identity.user, identity.role) == ("alice@lab.org", "alice", Role.USER)
    assert (identity.source, identity.expires_ms) == (Source.USER_TOKEN, row().expires_ms)
    assert "expired" in await refusal(token, verifier(now_s=NOW_S + DAY_S + SKEW_S))


async def test_a_token_of_a_previous_key_counts_until_that_key_is_forgotten() -> None:
    token = UserTokenSigner(OLD, "lab").sign(row())
    assert (await verifier().verify(token)).user == "alice"
    assert "signature fits no" in await refusal(token, verifier(keys=(KEY,)))


async def test_a_token_counts_while_its_row_stands_also_when_it_was_seen_before() -> None:
    rows = Rows(row())
    check, token = verifier(rows), signed()
    await check.verify(token)
    rows.rows["t1"] = row(revoked_ms=NOW_S * 1000)
    assert "was revoked" in await refusal(token, check)
    del rows.rows["t1"]
    assert "does not know" in await refusal(token, check)


async def test_a_key_alone_makes_no_token() -> None:
    assert "does not know" in await refusal(signed(jti="t2"))
    assert "does not know" in await refusal(signed(role="admin"))
    assert "does not know" in await refusal(signed(sub="bob@lab.org"))


async def test_the_database_is_asked_only_for_what_is_signed() -> None:
    rows = Rows(row())
    await refusal(signed(STRANGER), verifier(rows))
    assert rows.asked == 0


async def test_without_a_key_no_token_is_made_and_none_counts() -> None:
    with pytest.raises(FailedPrecondition, match=r"no auth\.signing_key"):
        UserTokenSigner(None, "lab").sign(row())
    assert "signature fits no" in await refusal(signed(), verifier(keys=()))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"exp": NOW_S - SKEW_S, "iat": NOW_S - 200}, "has expired"),
        ({"iat": NOW_S + SKEW_S + 1}, "from the future"),
        ({"nbf": NOW_S + SKEW_S + 1}, "from the future"),
        ({"exp": NOW_S + LIFETIME_S + 1}, "lives longer"),
        ({"exp": None}, "lacks iat or exp"),
        ({"iat": None}, "lacks iat or exp"),
        ({"aud": "federation"}, "audience is not"),
        ({"aud": [AUDIENCE]}, "audience is not"),
        ({"aud": None}, ""),
        ({"iss": "hub"}, "was not issued by lab"),
        ({"iss": None}, "was not issued by lab"),
        ({"jti": None}, "lacks jti or sub"),
        ({"jti": 7}, ""),
        ({"sub": None}, "lacks jti or sub"),
        ({"role": "federation-peer"}, "role is not a person's"),
        ({"role": "job"}, "role is not a person's"),
        ({"role": ["admin"]}, "role is not a person's"),
        ({"role": None}, "role is not a person's"),
    ],
)
async def test_a_token_that_breaks_a_rule_is_refused_and_told_which(changes: dict[str, Any], words: str) -> None:
    assert words in await refusal(signed(**changes))


async def test_no_other_algorithm_counts() -> None:
    for algorithm in ("none", "None", "NONE", ""):
        await refusal(f"{encoded({'alg': algorithm, 'typ': 'JWT'})}.{encoded(claims())}.")
        await refusal(signed(header={"alg": algorithm}))
    public = KEY.public_key()
    message = f"{encoded({'alg': 'HS256', 'typ': 'JWT'})}.{encoded(claims())}"
    for secret in (
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.Raw, PublicFormat.Raw),
    ):
        await refusal(f"{message}.{encoded(hmac.new(secret, message.encode(), hashlib.sha256).digest())}")


async def test_a_federation_token_of_the_same_key_is_no_user_token() -> None:
    token = FederationSigner(KEY, "lab", Noon(), Noon()).mint("lab")
    assert "audience is not" in await refusal(token)


async def test_who_is_no_longer_listed_is_no_more_than_a_dashboard_with_any_token() -> None:
    token = signed()
    listed = People("root", "lab.org", Listed(users=("*@lab.org",), binding=True))
    assert (await verifier(people=listed).verify(token)).role is Role.USER
    struck = People("root", "lab.org", Listed(binding=True))
    identity = await verifier(people=struck).verify(token)
    assert (identity.role, identity.user) == (Role.DASHBOARD, "")


async def test_a_token_of_a_person_whose_user_name_is_the_administrators_is_denied() -> None:
    with pytest.raises(PermissionDenied, match="kept for another"):
        await verifier(Rows(row(principal="root@lab.org"))).verify(signed(sub="root@lab.org"))


async def test_an_oversized_token_is_refused_unread() -> None:
    assert await refusal("x" * (MAX_TOKEN_BYTES + 1)) == "the user token is too long"


def test_what_is_signed_holds_no_more_than_it_must() -> None:
    token = UserTokenSigner(KEY, "lab").sign(row(note="a secret note"))
    assert (
        jwt.decode(token, KEY.public_key(), algorithms=["EdDSA"], audience=AUDIENCE, options={"verify_exp": False})
        == claims()
    )


@given(st.data())
async def test_a_token_changed_anywhere_is_refused(data: st.DataObject) -> None:
    token = signed()
    at = data.draw(st.integers(0, len(token) - 3))
    letter = data.draw(st.sampled_from("ABCDwxyz0189-_."))
    changed = token[:at] + letter + token[at + 1 :]
    if changed != token:
        await refusal(changed)


@given(st.text(max_size=200) | st.text("eyJh.-_=", max_size=200))
async def test_garbage_is_refused(text: str) -> None:
    await refusal(text)


@given(st.sampled_from(sorted(claims())), JSON.filter(lambda value: value is not None))
async def test_a_signed_claim_of_any_other_value_is_refused(name: str, value: Any) -> None:
    if claims()[name] != value:
        await refusal(signed(**{name: value}))
