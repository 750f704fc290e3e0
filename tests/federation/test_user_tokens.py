"""User tokens of a real controller: made, listed, revoked, and what none of them can do."""

from pathlib import Path

import pytest

from iris_fed.client import Client
from iris_fed.controller.tokens import MAX_TOKENS_OF_ONE
from iris_fed.errors import (
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
)
from tests.federation.callers import person, post, signing, token_of
from tests.federation.world import Cluster, World

WHOAMI = "iris.cluster.ControllerService/GetCurrentUser"


@pytest.fixture
async def lab(world: World, tmp_path: Path) -> Cluster:
    return await world.add("lab", auth=signing(world, "lab", tmp_path))


async def test_a_token_works_until_it_is_revoked_also_after_a_restart(lab: Cluster) -> None:
    made = await lab.client.create_token("alice@lab.org", lifetime_s=3_600, note="laptop")
    alice = Client(lab.url, token=made.token, transport=lab.transport())
    assert (await alice.whoami()).user_id == "alice"
    (listed,) = (await alice.tokens()).tokens
    assert (listed.token_id, listed.note, listed.created_by) == (made.info.token_id, "laptop", made.info.created_by)
    assert made.token not in str(await lab.client.tokens())
    await lab.restart()
    assert (await alice.whoami()).user_id == "alice"
    (revoked,) = (await lab.client.revoke_token(made.info.token_id)).tokens
    assert revoked.HasField("revoked_ms")
    with pytest.raises(Unauthenticated, match="was revoked"):
        await alice.whoami()
    await lab.restart()
    with pytest.raises(Unauthenticated, match="was revoked"):
        await alice.whoami()


async def test_all_tokens_of_a_person_are_revoked_at_once_and_nobody_elses(lab: Cluster) -> None:
    alice, again, bob = await person(lab, "alice"), await person(lab, "ALICE@lab.org"), await person(lab, "bob")
    assert len((await lab.client.revoke_token(user="alice")).tokens) == 2
    for client in (alice, again):
        with pytest.raises(Unauthenticated, match="was revoked"):
            await client.whoami()
    assert (await bob.whoami()).user_id == "bob"


async def test_nobody_prolongs_a_token_by_another(lab: Cluster) -> None:
    made = await lab.client.create_token("alice", lifetime_s=600)
    alice = Client(lab.url, token=made.token, transport=lab.transport())
    second = await alice.create_token()
    assert second.info.expires_ms == made.info.expires_ms
    with pytest.raises(PermissionDenied, match="would outlive"):
        await alice.create_token(lifetime_s=3_600)
    boss = await lab.client.create_token("boss", role="admin", lifetime_s=600)
    admin = Client(lab.url, token=boss.token, transport=lab.transport())
    assert (await admin.create_token("eve", role="admin")).info.expires_ms == boss.info.expires_ms
    assert (await admin.create_token("eve", role="user")).info.expires_ms > boss.info.expires_ms


async def test_a_token_of_another_cluster_or_of_a_cluster_of_the_same_name_is_no_credential(
    lab: Cluster, world: World, tmp_path: Path
) -> None:
    other = await world.add("other", auth=signing(world, "other", tmp_path))
    token = await token_of(other, "alice", "admin")
    assert (await post(lab, WHOAMI, authorization=f"Bearer {token}"))[0] == "unauthenticated"
    assert (await post(lab, WHOAMI, authorization=f"Bearer {other.running.admin_token}"))[0] == "unauthenticated"
    made = await token_of(lab, "alice")
    await lab.stop()
    lab.wipe()
    await lab.start()
    code, message = await post(lab, WHOAMI, authorization=f"Bearer {made}")
    assert (code, "does not know this user token" in message) == ("unauthenticated", True)


async def test_a_rotated_key_goes_on_counting_for_tokens_that_it_signed(world: World, tmp_path: Path) -> None:
    lab = await world.add("lab", auth=signing(world, "lab", tmp_path))
    old = await token_of(lab, "alice")
    await lab.stop()
    lab.auth = signing(world, "fresh", tmp_path) | {"previous_signing_keys": [world.public_key("lab")]}
    await lab.start()
    assert await post(lab, WHOAMI, authorization=f"Bearer {old}") == ("", "")
    assert await post(lab, WHOAMI, authorization=f"Bearer {await token_of(lab, 'alice')}") == ("", "")
    await lab.stop()
    lab.auth = signing(world, "fresh", tmp_path)
    await lab.start()
    assert (await post(lab, WHOAMI, authorization=f"Bearer {old}"))[0] == "unauthenticated"


async def test_one_person_has_a_bounded_number_of_tokens_and_revoking_makes_room(lab: Cluster) -> None:
    made = [(await lab.client.create_token("alice")).info for _ in range(MAX_TOKENS_OF_ONE)]
    with pytest.raises(ResourceExhausted, match=r"alice@lab\.org has 100 tokens"):
        await lab.client.create_token("alice")
    assert (await lab.client.create_token("bob")).info.user == "bob@lab.org"
    await lab.client.revoke_token(made[0].token_id)
    await lab.client.create_token("alice")
    with pytest.raises(ResourceExhausted):
        await lab.client.create_token("alice")
    assert len((await lab.client.tokens("alice")).tokens) == MAX_TOKENS_OF_ONE


async def test_what_cannot_be_asked_for_is_refused_and_told_why(lab: Cluster) -> None:
    for user, changes, words in (
        ("a/b", {}, "is no e-mail address"),
        ("alice", {"role": "job"}, "is none of admin, user, dashboard"),
        ("alice", {"role": "federation-peer"}, "is none of admin, user, dashboard"),
        ("alice", {"lifetime_s": -1}, "must be between 1 and 2592000"),
        ("alice", {"lifetime_s": 2_592_001}, "must be between 1 and 2592000"),
        ("alice", {"note": "a\nb"}, "must not hold control characters"),
        ("alice", {"note": "n" * 2_000}, "has at most"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            await lab.client.create_token(user, **changes)
    with pytest.raises(NotFound, match="there is no token"):
        await lab.client.revoke_token("nothing")
    with pytest.raises(InvalidArgument, match="either a token's id or a user"):
        await lab.client.revoke_token()
    alice, bob = await person(lab, "alice"), (await lab.client.create_token("bob")).info
    with pytest.raises(NotFound, match="of yours"):
        await alice.revoke_token(bob.token_id)
    with pytest.raises(PermissionDenied, match="kept for another"):
        await lab.client.create_token((await lab.client.whoami()).user_id, role="user")


async def test_without_a_signing_key_there_are_no_tokens(world: World) -> None:
    lab = await world.add("lab")
    with pytest.raises(FailedPrecondition, match=r"no auth\.signing_key"):
        await lab.client.create_token("alice")
    assert await lab.rows("SELECT 1 FROM user_tokens") == []
