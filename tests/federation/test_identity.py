"""Who may do what, asked of real controllers: every method as everybody, and each credential that is none."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from iris_fed.auth.iap import HEADER
from iris_fed.auth.identity import Role
from iris_fed.client import Client
from iris_fed.errors import PermissionDenied
from iris_fed.rpc.gen.job import job_pb2
from tests.federation.callers import one_of_each, person, post, signing, with_headers
from tests.federation.world import PENDING, RUNNING, Cluster, World, cpu_job, gpu_job, handoff, job_of, seen
from tests.google import AUDIENCE, Google, KeyServer
from tests.unit.test_policy import EXPECTED, METHODS

WHOAMI = "iris.cluster.ControllerService/GetCurrentUser"
LISTED = {"admin_users": ["boss@lab.org"], "users": ["*@lab.org"]}


@pytest.fixture
async def google() -> AsyncIterator[KeyServer]:
    with KeyServer(Google()) as server:
        yield server


@pytest.fixture
async def lab(world: World, tmp_path: Path) -> Cluster:
    """Makes user tokens, and trusts `hub`."""
    return await world.add("lab", h100=8, trusts={"hub": ["*"]}, auth=signing(world, "lab", tmp_path))


@pytest.fixture
async def guarded(world: World, tmp_path: Path, google: KeyServer) -> Cluster:
    """Behind IAP."""
    iap = {"iap": {"signed_header_audience": AUDIENCE, "keys_url": google.url}}
    return await world.add("lab", trusts={"hub": ["*"]}, auth=signing(world, "lab", tmp_path) | LISTED | iap)


async def test_every_method_is_called_by_every_role_and_only_the_table_decides(lab: Cluster, world: World) -> None:
    tokens = await one_of_each(lab, await world.add("hub", start=False))
    wrong = []
    for method in METHODS:
        code, _ = await post(lab, method)
        assert code == "unauthenticated", method
        for role, token in tokens.items():
            code, message = await post(lab, method, authorization=f"Bearer {token}")
            assert code not in ("unauthenticated", "internal", "unknown"), (method, role, message)
            if ("may not call" in message) == (role in EXPECTED[method]):
                wrong.append((method, role, code, message))
    assert wrong == []


async def test_nobody_but_a_trusted_cluster_under_its_own_name_hands_a_job_over(lab: Cluster, world: World) -> None:
    tokens = await one_of_each(lab, await world.add("hub", start=False))
    before = len(await lab.rows("SELECT 1 FROM jobs"))
    for role, token in tokens.items():
        client = Client(lab.url, token=token, transport=lab.transport())
        with pytest.raises(PermissionDenied):
            await client.submit(handoff("/alice/hub.forged", "hub" if role is not Role.FEDERATION_PEER else "rival"))
    assert len(await lab.rows("SELECT 1 FROM jobs")) == before


async def test_a_federation_token_never_speaks_for_its_users_and_a_user_token_never_for_a_cluster(
    lab: Cluster, world: World
) -> None:
    tokens = await one_of_each(lab, await world.add("hub", start=False))
    for method in ("ListJobs", "GetJobStatus", "ListPeers"):
        code, _ = await post(
            lab, f"iris.cluster.ControllerService/{method}", authorization=f"Bearer {tokens[Role.FEDERATION_PEER]}"
        )
        assert code == "permission_denied"
    for role in (Role.ADMIN, Role.USER, Role.DASHBOARD, Role.JOB):
        code, _ = await post(
            lab,
            "iris.cluster.ControllerService/FederationSync",
            b'{"requesterId": "hub"}',
            authorization=f"Bearer {tokens[role]}",
        )
        assert code == "permission_denied"


async def test_a_user_works_under_its_own_name_and_on_its_own_jobs_only(lab: Cluster) -> None:
    alice, bob = await person(lab, "Alice@lab.org"), await person(lab, "bob@other.org")
    job_id = await alice.submit(gpu_job())
    assert job_id == "/alice/train"
    assert await bob.submit(gpu_job()) == "/bob@other.org/train"
    await seen(lab, job_id, RUNNING)
    assert (await bob.job(job_id)).job.submitting_user == "alice@lab.org"
    for attempt in (
        lambda: bob.submit(gpu_job("/alice/other")),
        lambda: bob.submit(gpu_job("/alice/train/child")),
        lambda: bob.cancel(job_id),
        lambda: bob.exec(job_id, ["true"]),
        lambda: bob.list_files(job_id),
        lambda: bob.create_token("alice"),
        lambda: bob.create_token(role="admin"),
        lambda: bob.tokens("alice"),
        lambda: bob.revoke_token(user="alice"),
    ):
        with pytest.raises(PermissionDenied):
            await attempt()
    assert (await job_of(lab, job_id)).state == RUNNING
    await alice.cancel(job_id)


async def test_a_job_that_was_handed_over_is_never_the_local_namesakes(lab: Cluster, world: World) -> None:
    hub = await world.add("hub", peers=("lab",))
    job_id = "/alice/hub.train"
    token = hub.token_for("lab")
    await Client(lab.url, token=token, transport=lab.transport()).submit(handoff(job_id, "hub"))
    alice = await person(lab, "alice")
    for attempt in (
        lambda: alice.cancel(job_id),
        lambda: alice.exec(job_id, ["true"]),
        lambda: alice.list_files(job_id),
    ):
        with pytest.raises(PermissionDenied):
            await attempt()
    assert (await job_of(lab, job_id)).state in (PENDING, RUNNING)


# --- Behind IAP ---


async def test_who_comes_through_the_proxy_is_who_google_says(guarded: Cluster, google: KeyServer) -> None:
    for email, role, user in [
        ("boss@lab.org", "admin", "boss"),
        ("Alice@lab.org", "user", "alice"),
        ("eve@x.org", "dashboard", ""),
    ]:
        channel = with_headers(guarded, {HEADER: google.google.assertion(email)})
        me = await channel.controller.get_current_user(job_pb2.GetCurrentUserRequest())
        assert (me.role, me.user_id, me.display_name) == (role, user, email.lower())
    assert google.asked == 1


async def test_a_bad_credential_is_refused_whatever_good_one_follows_it(guarded: Cluster, google: KeyServer) -> None:
    good = google.google.assertion("boss@lab.org")
    stranger = Google().assertion("boss@lab.org")
    for bad in ("", "Bearer x", "Basic YTpi", f"Bearer {good}", "Bearer irisfed_admin_x"):
        assert (await post(guarded, WHOAMI, authorization=bad, x_goog_iap_jwt_assertion=good))[0] == "unauthenticated"
    for bad in ("", "x", stranger, google.google.assertion("boss@lab.org", aud="/projects/1/x")):
        assert (await post(guarded, WHOAMI, x_goog_iap_jwt_assertion=bad))[0] == "unauthenticated"
    email = "accounts.google.com:boss@lab.org"
    assert (await post(guarded, WHOAMI, x_goog_authenticated_user_email=email))[0] == "unauthenticated"
    admin = f"Bearer {guarded.running.admin_token}"
    assert (await post(guarded, WHOAMI, proxy_authorization=admin))[0] == "unauthenticated"
    assert (await post(guarded, WHOAMI, x_goog_iap_jwt_assertion=good)) == ("", "")


async def test_an_assertion_is_no_credential_where_no_proxy_is_configured(lab: Cluster) -> None:
    code, message = await post(lab, WHOAMI, x_goog_iap_jwt_assertion=Google().assertion("boss@lab.org"))
    assert (code, "auth.iap is not configured" in message) == ("unauthenticated", True)


async def test_while_googles_keys_are_not_known_nobody_comes_through_the_proxy(world: World, google: KeyServer) -> None:
    google.status = 503
    lab = await world.add("lab", auth=LISTED | {"iap": {"signed_header_audience": AUDIENCE, "keys_url": google.url}})
    assertion = google.google.assertion("boss@lab.org")
    code, message = await post(lab, WHOAMI, x_goog_iap_jwt_assertion=assertion)
    assert (code, "cannot be fetched" in message) == ("unavailable", True)
    assert (await post(lab, WHOAMI, authorization=f"Bearer {lab.running.admin_token}")) == ("", "")


async def test_behind_iap_a_token_makes_nobody_more_than_the_lists_say(guarded: Cluster, google: KeyServer) -> None:
    with pytest.raises(PermissionDenied, match="is not listed as user"):
        await guarded.client.create_token("eve@x.org", role="user")
    with pytest.raises(PermissionDenied, match="is not listed as admin"):
        await guarded.client.create_token("alice", role="admin")
    assert (await (await person(guarded, "boss", "admin")).whoami()).role == "admin"


async def test_a_body_is_not_read_before_it_is_known_who_asks(lab: Cluster) -> None:
    broken = json.dumps({"nonsense": True}).encode()
    assert (await post(lab, WHOAMI, broken))[0] == "unauthenticated"
    assert (await post(lab, WHOAMI, broken, authorization=f"Bearer {lab.running.admin_token}"))[0] == "invalid_argument"


async def test_a_job_here_is_submitted_under_the_own_name_by_a_task_too(lab: Cluster, world: World) -> None:
    tokens = await one_of_each(lab, await world.add("hub", start=False))
    task = Client(lab.url, token=tokens[Role.JOB], transport=lab.transport())
    with pytest.raises(PermissionDenied, match="below its own job"):
        await task.submit(cpu_job("/alice/other"))
