"""Requests as curl or a page sends them: what is wrong with one is said by name, with the right code."""

import json
from typing import Any

import pytest
from pyqwest import Client

from tests.federation.world import Cluster, Pair, World, started

IRIS = "iris.cluster.ControllerService"
OURS = "irisfed.v1.ClusterService"
RUN = {"runCommand": {"argv": ["true"]}}
JOB: dict[str, Any] = {"name": "job", "entrypoint": RUN}
GOOD_HANDOFF = {
    "requesterId": "hub",
    "ownerPrincipal": "alice",
    "submittingUser": "alice@lab.org",
    "handoffNonce": "one.two",
}
HANDED: dict[str, Any] = {"name": "/alice/hub.job", "entrypoint": RUN, "federation": GOOD_HANDOFF}


async def post(
    cluster: Cluster, method: str, body: object, *, token: str = "", service: str = IRIS
) -> tuple[int, dict[str, Any]]:
    """HTTP status and the answer's JSON. `body` is sent as it is when it is bytes."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {token or cluster.running.admin_token}"}
    client = Client(cluster.transport())
    response = await client.post(f"{cluster.url}/{service}/{method}", headers=headers, content=content)
    return response.status, json.loads(response.text())


def job(**fields: Any) -> dict[str, Any]:
    return JOB | fields


def refused(answer: tuple[int, dict[str, Any]], code: str, words: str) -> None:
    status, error = answer
    assert (error["code"], status >= 400) == (code, True)
    assert words in error["message"]
    assert "Traceback" not in error["message"]


async def test_a_job_is_submitted_and_read_with_plain_json(world: World) -> None:
    hub = await world.add("hub")
    status, answer = await post(hub, "LaunchJob", job(resources={"cpuMillicores": 100, "memoryBytes": "1048576"}))
    assert status == 200
    (uid,) = await started(hub)
    hub.engine.finish(uid)
    status, shown = await post(hub, "GetJobStatus", {"jobId": answer["jobId"]})
    assert (status, shown["job"]["jobId"]) == (200, answer["jobId"])
    assert shown["request"]["entrypoint"]["runCommand"]["argv"] == ["true"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b'{"name": "a"', b"{" * 5_000, b'{"name": NaN}'],
    ids=["empty", "cut", "list", "null", "text", "no text", "unclosed", "deep", "nan"],
)
@pytest.mark.parametrize("method", ["LaunchJob", "GetJobStatus", "TerminateJob"])
async def test_a_body_that_is_no_request_is_an_invalid_argument(world: World, method: str, body: bytes) -> None:
    hub = await world.add("hub")
    status, error = await post(hub, method, body)
    assert (status, error["code"]) == (400, "invalid_argument")
    assert error["message"]


@pytest.mark.parametrize(
    ("method", "body", "field"),
    [
        ("LaunchJob", job(nmae="x"), "nmae"),
        ("LaunchJob", job(name=7), "name"),
        ("LaunchJob", job(replicas="many"), "replicas"),
        ("LaunchJob", job(replicas=2**40), "replicas"),
        ("LaunchJob", job(replicas=-1), "replicas"),
        ("LaunchJob", job(replicas=1.5), "replicas"),
        ("LaunchJob", job(replicas=2**31 - 1), "replicas"),
        ("LaunchJob", job(resources={"memoryBytes": str(2**63 - 1)}), "memory_bytes"),
        ("LaunchJob", job(resources={"memoryBytes": str(2**70)}), "memoryBytes"),
        ("LaunchJob", job(resources={"cpuMillicores": -5}), "cpu_millicores"),
        ("LaunchJob", job(resources={"device": {"gpu": {"count": -1}}}), "count"),
        ("LaunchJob", job(timeout={"milliseconds": "-1"}), "timeout"),
        ("LaunchJob", job(timeout="3s"), "timeout"),
        ("LaunchJob", job(constraints=[{"key": "region", "op": "CONSTRAINT_OP_LIKE"}]), "constraints[0].op"),
        ("LaunchJob", job(constraints=[{"key": "region", "op": 77, "value": {"stringValue": "eu"}}]), "constraints"),
        ("LaunchJob", job(constraints=[{"key": "", "value": {"stringValue": "eu"}}]), "constraints"),
        ("LaunchJob", job(existingJobPolicy="EXISTING_JOB_POLICY_MAYBE"), "existingJobPolicy"),
        ("LaunchJob", job(existingJobPolicy=99), "existing_job_policy"),
        ("LaunchJob", job(priorityBand=99), "priority_band"),
        ("LaunchJob", job(name=""), "name"),
        ("LaunchJob", job(name="/alice/.."), "name"),
        ("LaunchJob", job(name="/alice/a\u0000b"), "name"),
        ("LaunchJob", job(name="x" * 1_000), "name"),
        ("LaunchJob", job(name="\ud800"), "name"),
        ("LaunchJob", {"name": "job"}, "entrypoint.run_command.argv"),
        ("LaunchJob", job(environment={"envVars": {"A=B": "c"}}), "environment.env_vars"),
        ("LaunchJob", job(environment={"envVars": ["A"]}), "envVars"),
        ("LaunchJob", job(maxRetriesFailure=10**6), "max_retries_failure"),
        ("LaunchJob", job(ports=["a b"]), "ports"),
        ("GetJobStatus", {"jobId": "train"}, "job_id"),
        ("GetJobStatus", {"jobId": ["/a/b"]}, "jobId"),
        ("TerminateJob", {"jobId": "/"}, "job_id"),
        ("GetTaskStatus", {"taskId": "/alice/job"}, "task_id"),
        ("GetTaskStatus", {"taskId": "/alice/job/99999999999999999999"}, "task_id"),
        ("GetJobState", {"jobIds": ["nonsense"]}, "job_ids"),
        ("ListTasks", {"jobId": ""}, "job_id"),
        ("ListJobs", {"query": {"limit": -1}}, "query.limit"),
        ("ListJobs", {"query": {"stateFilter": "ASLEEP"}}, "query.state_filter"),
        ("ListJobs", {"query": {"sortField": 42}}, "query.sort_field"),
        ("ListJobs", {"query": {"scope": "JOB_QUERY_SCOPE_CHILDREN"}}, "query.parent_job_id"),
    ],
)
async def test_a_field_that_makes_no_sense_is_named(
    world: World, method: str, body: dict[str, Any], field: str
) -> None:
    hub = await world.add("hub")
    refused(await post(hub, method, body), "invalid_argument", field)
    assert await hub.rows("SELECT 1 FROM jobs") == []


@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("GetJobStatus", {"jobId": "/alice/none"}),
        ("TerminateJob", {"jobId": "/alice/none"}),
        ("GetTaskStatus", {"taskId": "/alice/none/0"}),
        ("ListTasks", {"jobId": "/alice/none"}),
    ],
)
async def test_a_job_that_is_not_there_is_not_found(world: World, method: str, body: dict[str, Any]) -> None:
    hub = await world.add("hub")
    refused(await post(hub, method, body), "not_found", "/alice/none")


async def test_a_body_over_the_limit_is_refused_as_such(world: World) -> None:
    hub = await world.add("hub")
    status, error = await post(hub, "LaunchJob", job(submitArgv=["x" * 5_000_000]))
    assert error["code"] in ("resource_exhausted", "invalid_argument")
    assert status in (400, 429)


async def test_a_request_without_a_credential_is_denied_before_its_body_is_read(world: World) -> None:
    hub = await world.add("hub")
    refused(await post(hub, "LaunchJob", b"{", token="nothing"), "unauthenticated", "token")


REFERENCES = {"entrypoint": RUN | {"workdirFileRefs": {"data.csv": "gs://bucket/data.csv"}}}


@pytest.mark.parametrize("way", ["here", "pinned to the peer", "as a handoff"])
async def test_references_to_files_are_refused_wherever_they_come_in_and_what_to_send_instead_is_said(
    pair: Pair, way: str
) -> None:
    match way:
        case "here":
            answer = await post(pair.hub, "LaunchJob", JOB | REFERENCES)
        case "pinned to the peer":
            pin = {"key": "cluster", "value": {"stringValue": "lab"}}
            answer = await post(pair.hub, "LaunchJob", JOB | REFERENCES | {"constraints": [pin]})
        case _:
            answer = await post(pair.lab, "LaunchJob", HANDED | REFERENCES, token=pair.hub.token_for("lab"))
    refused(answer, "invalid_argument", "entrypoint.workdir_file_refs")
    refused(answer, "invalid_argument", "send the contents in entrypoint.workdir_files, or a workspace")
    assert await pair.hub.rows("SELECT 1 FROM jobs") == await pair.lab.rows("SELECT 1 FROM jobs") == []


def handed(**fields: Any) -> dict[str, Any]:
    return HANDED | {"federation": GOOD_HANDOFF | fields}


@pytest.mark.parametrize(
    ("method", "body", "code", "field"),
    [
        ("LaunchJob", handed(requesterId="Not A Name"), "invalid_argument", "federation.requester_id"),
        ("LaunchJob", handed(requesterId=""), "invalid_argument", "federation.requester_id"),
        ("LaunchJob", handed(handoffNonce=""), "invalid_argument", "federation.handoff_nonce"),
        ("LaunchJob", handed(handoffNonce="n" * 1_000), "invalid_argument", "federation.handoff_nonce"),
        ("LaunchJob", handed(ownerPrincipal="a/b"), "invalid_argument", "federation.owner_principal"),
        ("LaunchJob", handed(submittingUser=""), "invalid_argument", "federation.submitting_user"),
        ("LaunchJob", handed(expiresMs="1"), "invalid_argument", "federation.expires_ms"),
        ("LaunchJob", handed(expiresMs=str(2**53)), "invalid_argument", "federation.expires_ms"),
        ("LaunchJob", handed(databaseId="another"), "aborted", "database"),
        ("LaunchJob", HANDED | {"name": "bare"}, "invalid_argument", "name"),
        ("LaunchJob", HANDED | {"name": "/alice/hub.job/child"}, "invalid_argument", "name"),
        ("LaunchJob", HANDED | {"federation": None}, "invalid_argument", "federation"),
        ("LaunchJob", HANDED | {"federation": "hub"}, "invalid_argument", "federation"),
        ("TerminateJob", {"jobId": "/alice/hub.x", "handoffNonce": "n" * 1_000}, "invalid_argument", "handoff_nonce"),
        ("TerminateJob", {"jobId": "/alice/hub.x"}, "not_found", "/alice/hub.x"),
        ("TerminateJob", {"jobId": "x", "handoffNonce": "n"}, "invalid_argument", "job_id"),
        ("FederationSync", {"requesterId": "HUB"}, "invalid_argument", "requester_id"),
        ("FederationSync", {"requesterId": "hub", "waitMs": "-1"}, "invalid_argument", "wait_ms"),
        ("FederationSync", {"requesterId": "hub", "maxDeltas": -1}, "invalid_argument", "max_deltas"),
        ("FederationSync", {"requesterId": "hub", "cursor": "c" * 5_000}, "invalid_argument", "cursor"),
        ("FederationSync", {"requesterId": "hub", "cursor": 7}, "invalid_argument", "cursor"),
        ("ListTasks", {"jobId": "x"}, "not_found", "x"),
        ("GetTaskStatus", {"taskId": "x"}, "invalid_argument", "task_id"),
    ],
)
async def test_a_cluster_that_sends_nonsense_is_told_which_field(
    pair: Pair, method: str, body: dict[str, Any], code: str, field: str
) -> None:
    token = pair.hub.token_for("lab")
    refused(await post(pair.lab, method, body, token=token), code, field)
    assert await pair.lab.rows("SELECT 1 FROM federated_jobs") == []
    assert await pair.lab.rows("SELECT 1 FROM jobs") == []


async def test_a_handoff_in_json_is_admitted_and_its_replay_gives_the_same_job(pair: Pair) -> None:
    token = pair.hub.token_for("lab")
    first = await post(pair.lab, "LaunchJob", HANDED, token=token)
    assert first == (200, {"jobId": "/alice/hub.job"})
    assert await post(pair.lab, "LaunchJob", HANDED, token=token) == first
    await started(pair.lab)


@pytest.mark.parametrize(
    ("method", "body", "code", "field"),
    [
        ("CheckPeer", {"peer": "nobody"}, "not_found", "nobody"),
        ("CheckPeer", {"peer": 3}, "invalid_argument", "peer"),
        ("ListJobEvents", {"jobId": "nonsense"}, "invalid_argument", "job_id"),
        ("ListJobEvents", {"jobId": "/alice/none"}, "not_found", "/alice/none"),
        ("GetClusterInfo", {"x": 1}, "invalid_argument", "x"),
    ],
)
async def test_our_own_service_names_what_is_wrong_too(
    world: World, method: str, body: dict[str, Any], code: str, field: str
) -> None:
    hub = await world.add("hub")
    refused(await post(hub, method, body, service=OURS), code, field)
