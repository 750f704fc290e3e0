"""From headers to who asks: no credential, no way in."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from iris_fed.auth.authenticator import ADMIN_TOKEN_FILE, Authenticator, TaskOwner, ensure_admin_token
from iris_fed.auth.federation_tokens import FederationSigner, FederationVerifier, TrustedRequester
from iris_fed.auth.identity import Identity, Role
from iris_fed.auth.keys import private_key_from_pem, public_key_from_pem
from iris_fed.auth.task_tokens import KEY_FILE, TaskTokens, ensure_task_key
from iris_fed.clock import SystemClock, SystemEntropy
from iris_fed.errors import ConfigError, Unauthenticated

KEY = Ed25519PrivateKey.generate()
TOKEN = "irisfed_admin_secret"
TASKS = TaskTokens(b"k" * 32)
RUNNING = {"a1": TaskOwner("/alice/train", "alice", "alice@lab")}


async def job_of_task(uid: str) -> TaskOwner | None:
    return RUNNING.get(uid)


GATE = Authenticator(
    TOKEN,
    "root",
    FederationVerifier({"hub": TrustedRequester((KEY.public_key(),))}, "lab", SystemClock()),
    TASKS,
    job_of_task,
)


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
