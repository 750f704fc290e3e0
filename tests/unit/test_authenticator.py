"""From headers to who asks: no credential, no way in."""

import stat
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from iris_fed.auth.authenticator import ADMIN_TOKEN_FILE, Authenticator, Sources, TaskOwner, ensure_admin_token
from iris_fed.auth.federation_tokens import FederationSigner, FederationVerifier, TrustedRequester
from iris_fed.auth.iap import HEADER, IapVerifier
from iris_fed.auth.identity import Identity, Role, Source
from iris_fed.auth.keys import private_key_from_pem, public_key_from_pem
from iris_fed.auth.network import NetworkTrust
from iris_fed.auth.people import Listed, People
from iris_fed.auth.task_tokens import KEY_FILE, TaskTokens, ensure_task_key
from iris_fed.auth.user_tokens import UserTokenSigner, UserTokenVerifier
from iris_fed.clock import SystemClock, SystemEntropy
from iris_fed.errors import ConfigError, PermissionDenied, Unauthenticated
from iris_fed.model.tokens import UserToken
from tests.google import AUDIENCE, Google
from tests.unit.test_auth_iap import Fetched

KEY = Ed25519PrivateKey.generate()
TOKEN = "irisfed_admin_secret"
TASKS = TaskTokens(b"k" * 32)
TOKENS: dict[str, UserToken] = {}
RUNNING = {"a1": TaskOwner("/alice/train", "alice", "alice@lab")}


async def job_of_task(uid: str) -> TaskOwner | None:
    return RUNNING.get(uid)


async def token_of(token_id: str) -> UserToken | None:
    return TOKENS.get(token_id)


PEOPLE = People("root", "lab.org", Listed(("boss@lab.org",), ("*@lab.org",), binding=True))
CLOCK = SystemClock()
FEDERATION = FederationVerifier({"hub": TrustedRequester((KEY.public_key(),))}, "lab", CLOCK)
USERS = UserTokenVerifier("lab", [KEY.public_key()], PEOPLE, token_of, CLOCK, 86_400.0)
NETWORK = NetworkTrust([ip_network("10.0.0.0/8")])
GOOGLE = Google()
GATE = Authenticator(TOKEN, TASKS, job_of_task, Sources(PEOPLE, FEDERATION, USERS, None, NETWORK, CLOCK))


async def behind_iap() -> Authenticator:
    keys = Fetched(GOOGLE)
    await keys.fetch_once()
    iap = IapVerifier(keys, AUDIENCE, CLOCK)
    return Authenticator(TOKEN, TASKS, job_of_task, Sources(PEOPLE, FEDERATION, USERS, iap, NETWORK, CLOCK))


async def enter(value: str) -> Identity:
    return await GATE.authenticate({"authorization": value})


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_admin_token_makes_the_admin(scheme: str) -> None:
    identity = await enter(f"{scheme} {TOKEN}")
    assert (identity.role, identity.user, identity.requester) == (Role.ADMIN, "root", "")


async def test_a_federation_token_makes_a_peer_that_owns_no_user() -> None:
    token = FederationSigner(KEY, "hub", SystemClock(), SystemEntropy()).mint("lab")
    identity = await enter(f"Bearer {token}")
    assert (identity.role, identity.user, identity.requester) == (Role.FEDERATION_PEER, "", "hub")


async def test_the_token_of_a_running_task_speaks_for_its_owner_within_its_own_tree() -> None:
    identity = await enter(f"Bearer {TASKS.mint('a1')}")
    assert (identity.role, identity.principal, identity.user) == (Role.JOB, "alice@lab", "alice")
    assert identity.may_reach("/alice/train")
    assert identity.may_reach("/alice/train/eval")
    assert not identity.may_reach("/alice/train2")
    assert not identity.may_reach("/alice/other")


@pytest.mark.parametrize(
    "token",
    [TASKS.mint("over"), TaskTokens(b"x" * 32).mint("a1"), TASKS.mint("a1")[:-1], "irisfed_task_", "irisfed_task_a1_"],
)
async def test_a_task_token_counts_only_while_its_task_runs_and_only_if_it_was_made_here(token: str) -> None:
    with pytest.raises(Unauthenticated, match="this task token is not valid"):
        await enter(f"Bearer {token}")


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({}, "carries no credential"),
        ({"x-goog-authenticated-user-email": "accounts.google.com:boss@lab.org"}, "no credential"),
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
        ({"authorization": "Bearer secret"}, "this token is not valid here"),
    ],
)
async def test_anything_else_is_refused_and_told_why(headers: dict[str, str], words: str) -> None:
    with pytest.raises(Unauthenticated, match=words):
        await GATE.authenticate(headers)


@given(
    st.sampled_from(["", "Bearer ", "Bearer irisfed_task_", "Bearer irisfed_admin_"]),
    st.text(st.characters(max_codepoint=255), max_size=60),
)
async def test_no_header_gets_in_or_breaks_the_gate(prefix: str, value: str) -> None:
    with pytest.raises(Unauthenticated):
        await enter(prefix + value)


def user_token(principal: str = "alice@lab.org", role: str = "user") -> str:
    now_ms = CLOCK.now_ms()
    token = UserToken(
        token_id=f"of {principal}",
        principal=principal,
        role=role,
        note="",
        created_by="root",
        created_ms=now_ms,
        expires_ms=now_ms + 60_000,
    )
    TOKENS[token.token_id] = token
    return UserTokenSigner(KEY, "lab").sign(token)


@pytest.mark.parametrize(
    ("email", "role", "user"),
    [
        ("Boss@lab.org", Role.ADMIN, "boss"),
        ("alice@LAB.org", Role.USER, "alice"),
        ("eve@other.org", Role.DASHBOARD, ""),
    ],
)
async def test_iap_vouches_for_an_address_and_the_lists_say_what_it_is(email: str, role: Role, user: str) -> None:
    identity = await (await behind_iap()).authenticate({HEADER: GOOGLE.assertion(email)})
    assert (identity.principal, identity.role, identity.user) == (email.lower(), role, user)
    assert identity.source is Source.IAP


async def test_a_user_token_speaks_for_its_person() -> None:
    identity = await enter(f"Bearer {user_token()}")
    assert (identity.principal, identity.role, identity.user) == ("alice@lab.org", Role.USER, "alice")


async def test_the_first_credential_that_is_there_decides() -> None:
    gate, assertion = await behind_iap(), GOOGLE.assertion("boss@lab.org")
    both = {"authorization": f"Bearer {user_token()}", HEADER: assertion}
    assert (await gate.authenticate(both, "10.0.0.1:5")).principal == "alice@lab.org"
    assert (await gate.authenticate({HEADER: assertion}, "10.0.0.1:5")).principal == "boss@lab.org"
    assert (await gate.authenticate({}, "10.0.0.1:5")).source is Source.NETWORK


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "Bearer ",
        "Bearer x",
        "Basic YTpi",
        f"Bearer {TOKEN}x",
        "Bearer irisfed_task_a1_0",
        f"Bearer {TOKEN}, Bearer {TOKEN}",
        f"Bearer {GOOGLE.assertion('boss@lab.org')}",
        f"Bearer {FederationSigner(Ed25519PrivateKey.generate(), 'hub', CLOCK, SystemEntropy()).mint('lab')}",
    ],
)
async def test_a_bad_credential_never_falls_through_to_a_good_one(bad: str) -> None:
    good = GOOGLE.assertion("boss@lab.org")
    gate = await behind_iap()
    with pytest.raises(Unauthenticated):
        await gate.authenticate({"authorization": bad, HEADER: good}, "10.0.0.1:5")
    with pytest.raises(Unauthenticated):
        await gate.authenticate({HEADER: bad}, "10.0.0.1:5")


async def test_an_assertion_that_nobody_here_can_check_is_no_credential() -> None:
    with pytest.raises(Unauthenticated, match=r"auth\.iap is not configured"):
        await GATE.authenticate({HEADER: GOOGLE.assertion("boss@lab.org")}, "10.0.0.1:5")


@pytest.mark.parametrize("email", ["no address at all", "a/b@lab.org", "", "\u212aate@lab.org"])
async def test_an_address_that_cannot_name_a_user_gets_nobody_in(email: str) -> None:
    with pytest.raises(Unauthenticated, match="cannot name a user"):
        await (await behind_iap()).authenticate({HEADER: GOOGLE.assertion(email)})


async def test_the_administrators_user_name_is_nobody_elses() -> None:
    with pytest.raises(PermissionDenied, match="kept for another"):
        await (await behind_iap()).authenticate({HEADER: GOOGLE.assertion("root@lab.org")})


@pytest.mark.parametrize("header", ["proxy-authorization", "x-goog-authenticated-user-email", "x-goog-iap-jwt"])
async def test_headers_that_anybody_can_write_are_never_read(header: str) -> None:
    gate = await behind_iap()
    for value in (f"Bearer {TOKEN}", "accounts.google.com:boss@lab.org", GOOGLE.assertion("boss@lab.org")):
        with pytest.raises(Unauthenticated, match="no credential"):
            await gate.authenticate({header: value})


def admin_token(state_dir: Path) -> bytes:
    return ensure_admin_token(state_dir).encode()


@pytest.mark.parametrize(("ensure", "name"), [(admin_token, ADMIN_TOKEN_FILE), (ensure_task_key, KEY_FILE)])
def test_a_secret_is_made_once_and_only_its_owner_may_read_it(
    tmp_path: Path, ensure: Callable[[Path], bytes], name: str
) -> None:
    secret = ensure(tmp_path)
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert ensure(tmp_path) == secret
    assert len(secret) >= 32
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_an_admin_token_that_others_may_read_is_closed_to_them(tmp_path: Path) -> None:
    token = ensure_admin_token(tmp_path)
    (tmp_path / ADMIN_TOKEN_FILE).chmod(0o644)
    assert ensure_admin_token(tmp_path) == token
    assert stat.S_IMODE((tmp_path / ADMIN_TOKEN_FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize(("ensure", "name"), [(admin_token, ADMIN_TOKEN_FILE), (ensure_task_key, KEY_FILE)])
@pytest.mark.parametrize("left", ["", "\n", "hunter2\n"])
def test_a_secret_cut_short_is_replaced(tmp_path: Path, ensure: Callable[[Path], bytes], name: str, left: str) -> None:
    (tmp_path / name).write_text(left)
    secret = ensure(tmp_path)
    assert len(secret) >= 32
    assert ensure(tmp_path) == secret


@pytest.mark.parametrize("pem", ["", "nonsense", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])
def test_what_is_no_key_is_refused_by_its_name(pem: str) -> None:
    with pytest.raises(ConfigError, match=r"^auth\.key: not an Ed25519 private key"):
        private_key_from_pem(pem, "auth.key")
    with pytest.raises(ConfigError, match=r"^auth\.peers\.hub: not an Ed25519 public key"):
        public_key_from_pem(pem, "auth.peers.hub")
