"""Sessions of browsers: what opens one, what its cookie is worth, and which page may use it."""

from dataclasses import replace

import pytest

from iris_fed.auth.federation_tokens import FederationSigner
from iris_fed.auth.iap import HEADER
from iris_fed.auth.identity import Role, Source
from iris_fed.auth.session import COOKIE, MAX_SESSION_S
from iris_fed.auth.user_tokens import UserTokenSigner
from iris_fed.clock import SystemEntropy
from iris_fed.errors import Unauthenticated
from iris_fed.model.tokens import UserToken
from iris_fed.web.session import is_same_origin
from tests.unit.test_authenticator import CLOCK, GATE, GOOGLE, KEY, TASKS, TOKEN, TOKENS, behind_iap


def cookie(value: str) -> dict[str, str]:
    return {"cookie": f"theme=dark; {COOKIE}={value}"}


def user_token(name: str, lifetime_s: int = 60) -> str:
    now_ms = CLOCK.now_ms()
    TOKENS[name] = UserToken(
        token_id=name,
        principal="alice@lab.org",
        role="user",
        note="",
        created_by="root",
        created_ms=now_ms,
        expires_ms=now_ms + lifetime_s * 1000,
    )
    return UserTokenSigner(KEY, "lab").sign(TOKENS[name])


async def test_the_admin_token_opens_a_session_of_half_a_day_that_does_not_hold_it() -> None:
    session = await GATE.open_session(TOKEN)
    assert session.lifetime_s == MAX_SESSION_S
    assert TOKEN not in session.value
    identity = await GATE.authenticate(cookie(session.value))
    assert (identity.role, identity.source) == (Role.ADMIN, Source.SESSION)
    assert identity.expires_ms is not None


async def test_a_user_tokens_session_is_its_persons_and_ends_with_the_token() -> None:
    session = await GATE.open_session(user_token("session-1"))
    assert 0 < session.lifetime_s <= 60
    identity = await GATE.authenticate(cookie(session.value))
    assert (identity.principal, identity.role, identity.source) == ("alice@lab.org", Role.USER, Source.SESSION)


async def test_a_session_is_over_when_its_token_is_revoked_or_forgotten() -> None:
    session = await GATE.open_session(user_token("session-2"))
    TOKENS["session-2"] = replace(TOKENS["session-2"], revoked_ms=1)
    with pytest.raises(Unauthenticated, match="revoked"):
        await GATE.authenticate(cookie(session.value))
    del TOKENS["session-2"]
    with pytest.raises(Unauthenticated, match="does not know"):
        await GATE.authenticate(cookie(session.value))


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        TOKEN + "x",
        TASKS.mint("a1"),
        FederationSigner(KEY, "hub", CLOCK, SystemEntropy()).mint("lab"),
        GOOGLE.assertion("boss@lab.org"),
    ],
)
async def test_nothing_but_a_persons_own_token_opens_a_session(token: str) -> None:
    with pytest.raises(Unauthenticated):
        await GATE.open_session(token)


async def test_no_changed_value_counts() -> None:
    value = (await GATE.open_session(user_token("session-3"))).value
    expires, token_id, mac = value.split(".")
    for forged in (
        "", ".", "..", "x", TOKEN, value[:-1], value + "0", f"{int(expires) + 1}.{token_id}.{mac}",
        f"{expires}..{mac}", f"{expires}.other.{mac}", "9" * 5_000, f"{expires}.{token_id}.\xe9",
    ):  # fmt: skip
        with pytest.raises(Unauthenticated):
            await GATE.authenticate(cookie(forged))


async def test_a_session_is_no_bearer_token() -> None:
    session = await GATE.open_session(TOKEN)
    with pytest.raises(Unauthenticated):
        await GATE.authenticate({"authorization": f"Bearer {session.value}"})


async def test_a_header_beats_the_cookie_and_a_bad_cookie_beats_the_network() -> None:
    gate, session = await behind_iap(), await GATE.open_session(TOKEN)
    asserted = {HEADER: GOOGLE.assertion("eve@other.org")}
    assert (await gate.authenticate(cookie(session.value) | asserted)).principal == "eve@other.org"
    with pytest.raises(Unauthenticated):
        await gate.authenticate(cookie(session.value) | {"authorization": "Bearer x"})
    with pytest.raises(Unauthenticated, match="sign in again"):
        await gate.authenticate(cookie("bad"), "10.0.0.1:5")
    assert (await gate.authenticate({"cookie": "theme=dark"}, "10.0.0.1:5")).source is Source.NETWORK


async def test_two_sessions_are_none() -> None:
    value = (await GATE.open_session(TOKEN)).value
    with pytest.raises(Unauthenticated, match="one session"):
        await GATE.authenticate({"cookie": f"{COOKIE}={value}; {COOKIE}={value}"})


@pytest.mark.parametrize(
    ("headers", "same"),
    [
        ({}, False),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "cross-site", "origin": "http://localhost:8478"}, False),
        ({"origin": "http://localhost:8478"}, True),
        ({"origin": "http://localhost:9000"}, False),
        ({"origin": "http://127.0.0.1:8478"}, False),
        ({"origin": "https://localhost:8478", "sec-fetch-site": "same-origin"}, True),
        ({"origin": "https://lab.org", "host": "lab.org"}, True),
        ({"origin": "https://lab.org:444", "host": "lab.org"}, False),
        ({"origin": "null"}, False),
        ({"origin": "http://["}, False),
    ],
)
def test_only_a_page_of_the_same_host_and_port_is_the_same_origin(headers: dict[str, str], same: bool) -> None:
    assert is_same_origin({"host": "localhost:8478"} | headers) is same
