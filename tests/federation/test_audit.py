"""What the log keeps of who did what, and how many calls one caller may have under way."""

import asyncio
import json
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from iris_fed.auth.denials import MOST_OF_ONE
from iris_fed.auth.policy import POLICY
from iris_fed.rpc.audit import MAX_CHARS, changes_something
from tests.federation.callers import person, post, signing, token_of
from tests.federation.world import Cluster, World, cpu_job, started, until

IRIS, OURS = "iris.cluster.ControllerService", "irisfed.v1.ClusterService"
CALLS = 4


@pytest.fixture
async def lab(world: World, tmp_path: Path) -> Cluster:
    return await world.add("lab", auth=signing(world, "lab", tmp_path), limits={"calls_per_caller": CALLS})


@pytest.fixture
def lines(lab: Cluster) -> Iterator[list[MutableMapping[str, Any]]]:
    with capture_logs() as events:
        yield events


def audited(lines: list[MutableMapping[str, Any]]) -> list[MutableMapping[str, Any]]:
    return [line for line in lines if line["event"] == "audit"]


async def test_what_changes_something_leaves_one_line_that_says_who_did_it_to_what(
    lab: Cluster, lines: list[MutableMapping[str, Any]]
) -> None:
    alice = await person(lab, "alice")
    lines.clear()
    job = await alice.submit(cpu_job("mine", environment={"env_vars": {"PASSWORD": "hunter2"}}))
    await alice.whoami()
    await alice.cancel(job)
    launched, ended = audited(lines)
    assert (launched["outcome"], launched["method"], launched["subject"]) == ("allowed", "LaunchJob", job)
    assert (launched["caller"], launched["role"], launched["source"]) == ("alice@lab.org", "user", "user-token")
    assert (ended["method"], ended["subject"], ended["log_level"]) == ("TerminateJob", job, "info")
    assert launched["client"]
    assert "hunter2" not in str(lines)


async def test_what_is_denied_is_kept_with_its_reason_and_without_the_credential(
    lab: Cluster, lines: list[MutableMapping[str, Any]]
) -> None:
    job = await lab.client.submit(cpu_job("home"))
    token = await token_of(lab, "bob")
    lines.clear()
    code, _ = await post(
        lab, f"{IRIS}/TerminateJob", json.dumps({"jobId": job}).encode(), authorization=f"Bearer {token}"
    )
    assert code == "permission_denied"
    (denied,) = audited(lines)
    assert (denied["outcome"], denied["method"], denied["subject"]) == ("denied", "TerminateJob", job)
    assert (denied["caller"], denied["code"], denied["log_level"]) == ("bob@lab.org", "permission_denied", "warning")
    lines.clear()
    await post(lab, f"{IRIS}/SetUserBudget", authorization=f"Bearer {token}")
    await post(lab, f"{IRIS}/GetCurrentUser", authorization=f"Bearer {token}x")
    unallowed, unknown = audited(lines)
    assert (unallowed["caller"], unallowed["code"]) == ("bob@lab.org", "permission_denied")
    assert "caller" not in unknown
    assert (unknown["outcome"], unknown["code"]) == ("denied", "unauthenticated")
    assert token not in str(lines)


async def test_a_flood_of_denied_calls_leaves_a_bounded_number_of_lines(
    lab: Cluster, lines: list[MutableMapping[str, Any]]
) -> None:
    lines.clear()
    codes = {(await post(lab, f"{IRIS}/ListJobs", authorization="Bearer x"))[0] for _ in range(MOST_OF_ONE + 20)}
    assert codes == {"unauthenticated"}
    assert len(audited(lines)) == MOST_OF_ONE
    assert [line["for_s"] for line in lines if line["event"] == "audit.counting"] == [60]


async def test_a_line_is_bounded_whatever_was_sent(lab: Cluster, lines: list[MutableMapping[str, Any]]) -> None:
    token = lab.running.admin_token
    body = json.dumps({"jobId": "/x/" + "y" * 100_000}).encode()
    await post(lab, f"{IRIS}/TerminateJob", body, authorization=f"Bearer {token}")
    (failed,) = audited(lines)
    assert failed["outcome"] == "failed"
    assert max(len(str(value)) for value in failed.values()) <= MAX_CHARS


@pytest.mark.parametrize("method", sorted(POLICY))
def test_every_method_is_known_to_change_something_or_not(method: str) -> None:
    changes = {"LaunchJob", "TerminateJob", "ExecInContainer", "SetUserBudget", "ForgetPeer", "CreateUserToken"}
    name = method.rpartition("/")[2]
    assert changes_something(name) == (name in changes | {"RevokeUserToken"})


async def test_a_caller_with_too_many_calls_is_told_so_and_takes_nobody_elses_place(lab: Cluster) -> None:
    job = await lab.client.submit(cpu_job("home"))
    await started(lab)
    alice, bob = f"Bearer {await token_of(lab, 'alice')}", f"Bearer {await token_of(lab, 'bob')}"
    follow = json.dumps({"id": f"{job}/0", "follow": True}).encode()
    held = [asyncio.create_task(post(lab, f"{OURS}/ReadLogs", follow, authorization=alice)) for _ in range(CALLS)]

    async def refused() -> str:
        code, message = await post(lab, f"{IRIS}/GetCurrentUser", authorization=alice)
        return message if code == "resource_exhausted" else ""

    assert "alice@lab.org has 4 calls under way" in await until(refused)
    assert await post(lab, f"{IRIS}/GetCurrentUser", authorization=bob) == ("", "")
    await lab.client.cancel(job)
    assert {code for code, _ in await asyncio.gather(*held)} == {""}
    assert await post(lab, f"{IRIS}/GetCurrentUser", authorization=alice) == ("", "")
