"""IAP's assertion: Google's signature over our audience, fresh; the rest is Unauthenticated."""

import hashlib
import hmac
import json
import math
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from iris_fed.auth.claims import SKEW_S
from iris_fed.auth.iap import LIFETIME_S, MAX_TOKEN_BYTES, IapVerifier
from iris_fed.auth.jwks import PublishedKeys
from iris_fed.errors import Unauthenticated
from iris_fed.supervise import Pulse
from tests.google import AUDIENCE, Google
from tests.unit.test_federation_tokens import JSON, NOW_S, Noon, encoded

GOOGLE = Google(NOW_S)


class Fetched(PublishedKeys):
    """Keys that were fetched once."""

    def __init__(self, google: Google = GOOGLE) -> None:
        async def fetch() -> bytes:
            return google.jwks()

        super().__init__(fetch)

    async def fetch_once(self) -> None:
        class Stop(Exception):
            pass

        class Once(Pulse):
            def beat(self, within_s: float = 0.0) -> None:
                if within_s > 100:
                    raise Stop

        with pytest.raises(Stop):
            await self.run(Once(1.0))


async def verifier(now_s: float = NOW_S, audience: str = AUDIENCE, google: Google = GOOGLE) -> IapVerifier:
    keys = Fetched(google)
    await keys.fetch_once()
    return IapVerifier(keys, audience, Noon(now_s))


async def refusal(assertion: str, check: IapVerifier | None = None) -> str:
    with pytest.raises(Unauthenticated) as refused:
        await (check or await verifier()).verify(assertion)
    return refused.value.message


def signed(payload: object, header: dict[str, Any] | None = None) -> str:
    """Truly signed, whatever is in it."""
    key = GOOGLE.keys["key-1"]
    algorithm = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256)
    message = f"{encoded({'alg': 'ES256', 'typ': 'JWT', 'kid': 'key-1'} | (header or {}))}.{encoded(payload)}"
    return f"{message}.{encoded(algorithm.sign(message.encode(), key))}"


async def test_an_assertion_gives_the_address_that_google_vouches_for() -> None:
    assert await (await verifier()).verify(GOOGLE.assertion("Alice@lab.org")) == "Alice@lab.org"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"exp": NOW_S - SKEW_S, "iat": NOW_S - 300}, "has expired"),
        ({"iat": NOW_S + SKEW_S + 1}, "from the future"),
        ({"nbf": NOW_S + SKEW_S + 1}, "from the future"),
        ({"exp": NOW_S + LIFETIME_S + 1}, "lives longer"),
        ({"exp": math.inf}, "lacks iat or exp"),
        ({"iat": math.nan}, "lacks iat or exp"),
        ({"exp": None}, "lacks iat or exp"),
        ({"iat": None}, "lacks iat or exp"),
        ({"iss": "https://accounts.google.com"}, "not issued by Google's IAP"),
        ({"iss": None}, "not issued by Google's IAP"),
        ({"aud": "/projects/7/global/backendServices/9"}, "audience is not"),
        ({"aud": [AUDIENCE]}, "audience is not"),
        ({"aud": None}, ""),
        ({"sub": None}, "lacks sub or email"),
        ({"sub": ""}, "lacks sub or email"),
        ({"email": None}, "lacks sub or email"),
        ({"email": 7}, "lacks sub or email"),
    ],
)
async def test_an_assertion_that_breaks_a_rule_is_refused_and_told_which(changes: dict[str, Any], words: str) -> None:
    assert words in await refusal(signed(GOOGLE.claims(**changes)))


async def test_clocks_may_differ_a_little() -> None:
    late, early = await verifier(NOW_S + 600 + SKEW_S - 1), await verifier(NOW_S - SKEW_S)
    assert await late.verify(GOOGLE.assertion()) == await early.verify(GOOGLE.assertion())
    assert "expired" in await refusal(GOOGLE.assertion(), await verifier(NOW_S + 600 + SKEW_S))
    assert "future" in await refusal(GOOGLE.assertion(), await verifier(NOW_S - SKEW_S - 1))


async def test_an_assertion_counts_no_longer_because_it_was_seen_before() -> None:
    clock = Noon()
    keys = Fetched()
    await keys.fetch_once()
    check, assertion = IapVerifier(keys, AUDIENCE, clock), GOOGLE.assertion()
    for _ in range(2):
        await check.verify(assertion)
    clock.now_s += 600 + SKEW_S
    assert "expired" in await refusal(assertion, check)


async def test_an_assertion_counts_no_longer_than_its_key_is_published() -> None:
    google = Google(NOW_S)
    keys = Fetched(google)
    await keys.fetch_once()
    check, assertion = IapVerifier(keys, AUDIENCE, Noon()), google.assertion()
    await check.verify(assertion)
    google.rotate("key-2", drop="key-1")
    await keys.fetch_once()
    assert "does not publish" in await refusal(assertion, check)


async def test_only_the_key_that_the_assertion_names_counts() -> None:
    other = Google(NOW_S)
    assert "signature fits no" in await refusal(other.assertion())
    assert "no signed token that names its key" in await refusal(signed(GOOGLE.claims(), {"kid": None}))
    assert "no signed token that names its key" in await refusal(signed(GOOGLE.claims(), {"kid": 7}))


async def test_no_other_algorithm_counts() -> None:
    for algorithm in ("none", "None", "NONE", ""):
        header = {"alg": algorithm, "typ": "JWT", "kid": "key-1"}
        await refusal(f"{encoded(header)}.{encoded(GOOGLE.claims())}.")
        await refusal(signed(GOOGLE.claims(), header))
    public = GOOGLE.keys["key-1"].public_key()
    header = {"alg": "HS256", "typ": "JWT", "kid": "key-1"}
    message = f"{encoded(header)}.{encoded(GOOGLE.claims())}"
    for secret in (
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint),
        json.dumps(json.loads(GOOGLE.jwks())["keys"][0]).encode(),
    ):
        await refusal(f"{message}.{encoded(hmac.new(secret, message.encode(), hashlib.sha256).digest())}")
    strong = ec.generate_private_key(ec.SECP384R1())
    await refusal(jwt.encode(GOOGLE.claims(), strong, algorithm="ES384", headers={"kid": "key-1"}))


async def test_an_oversized_assertion_is_refused_unread() -> None:
    assert await refusal("x" * (MAX_TOKEN_BYTES + 1)) == "the IAP assertion is too long"


@given(st.data())
async def test_an_assertion_changed_anywhere_is_refused(data: st.DataObject) -> None:
    assertion = GOOGLE.assertion()
    at = data.draw(st.integers(0, len(assertion) - 3))
    letter = data.draw(st.sampled_from("ABCDwxyz0189-_."))
    changed = assertion[:at] + letter + assertion[at + 1 :]
    if changed != assertion:
        await refusal(changed, await verifier())


@given(st.text(max_size=200) | st.text("eyJh.-_=", max_size=200))
async def test_garbage_is_refused(text: str) -> None:
    await refusal(text)


@given(JSON, JSON, st.binary(max_size=80))
async def test_garbage_in_the_form_of_a_token_is_refused(header: object, payload: object, signature: bytes) -> None:
    if isinstance(header, dict):
        header = header | {"kid": "key-1", "alg": "ES256"}
    await refusal(f"{encoded(header)}.{encoded(payload)}.{encoded(signature)}")


@given(
    st.sampled_from(["iss", "aud", "sub", "email", "iat", "exp", "nbf"]), JSON.filter(lambda value: value is not None)
)
async def test_a_signed_claim_of_any_other_value_is_refused_or_believed_but_never_breaks(
    name: str, value: object
) -> None:
    try:
        email = await (await verifier()).verify(signed(GOOGLE.claims() | {name: value}))
    except Unauthenticated:
        return
    assert name in ("sub", "email", "nbf")
    assert isinstance(email, str)
