"""LaunchJob on the wire: what comes back unchanged, and the field named for each thing that is wrong."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from iris_fed.errors import InvalidArgument
from iris_fed.model.constraints import Constraint, Op
from iris_fed.model.jobs import Job
from iris_fed.model.limits import Limits
from iris_fed.model.resources import Device, DeviceKind, Resources
from iris_fed.model.spec import Handoff, JobSpec, Submission
from iris_fed.model.states import Band, ExistingJobPolicy
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.wire.delivery import MASK, request_of_job, submission_to_wire
from iris_fed.rpc.wire.launch import submission_from_wire

BOUNDS = Limits()
ECHO: dict[str, Any] = {"name": "train", "entrypoint": {"runCommand": {"argv": ["echo", "hi"]}}}


def request(**fields: Any) -> Controller.LaunchJobRequest:
    """A request as JSON would say it; numbers of enums are taken as they are."""
    return json_format.ParseDict({**ECHO, **fields}, Controller.LaunchJobRequest())


def read(bounds: Limits = BOUNDS, **fields: Any) -> Submission:
    return submission_from_wire(request(**fields), bounds)


def over_the_wire(submission: Submission) -> Submission:
    """Through bytes, so that nothing survives which the encoding would lose."""
    encoded = submission_to_wire(submission).SerializeToString()
    return submission_from_wire(Controller.LaunchJobRequest.FromString(encoded), BOUNDS)


words = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x24F, categories=["L", "N", "P"]), min_size=1, max_size=20
)
parts = words.map(lambda text: "n" + text.replace("/", ""))
anything = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
variables = st.dictionaries(words.map(lambda name: name.replace("=", "_")), anything, max_size=3)
milliseconds = st.none() | st.integers(1, 10**9)
scalars = words | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
constraint = st.one_of(
    st.builds(Constraint, parts, st.sampled_from([Op.EQ, Op.NE]), st.tuples(scalars), st.booleans()),
    st.builds(Constraint, parts, st.sampled_from([Op.GT, Op.GE, Op.LT, Op.LE]), st.tuples(numbers), st.booleans()),
    st.builds(Constraint, parts, st.sampled_from([Op.EXISTS, Op.NOT_EXISTS]), st.just(()), st.booleans()),
    st.builds(Constraint, parts, st.just(Op.IN), st.lists(scalars, min_size=1, max_size=3).map(tuple), st.booleans()),
)
pin = st.lists(
    st.builds(Constraint, st.sampled_from(["cluster", "backend"]), st.just(Op.EQ), st.tuples(words)), max_size=1
)
variant = st.just("") | words.map(str.lower).filter(lambda text: text == text.lower())
device = st.none() | st.one_of(
    st.builds(Device, st.just(DeviceKind.CPU), variant),
    st.builds(Device, st.just(DeviceKind.GPU), variant, st.integers(0, 1_024)),
    st.builds(Device, st.just(DeviceKind.TPU), variant, st.integers(0, 1_024), words),
)
resources = st.builds(Resources, st.integers(0, 10**6), st.integers(0, 2**45), st.integers(0, 2**45), device)
retries = st.integers(0, 1_000)
secrets = st.dictionaries(words.map(lambda name: name.replace("=", "_")) | st.just("file:key"), anything, max_size=3)
specs = st.builds(
    JobSpec,
    argv=st.tuples(words, anything),
    resources=resources,
    env=variables,
    secrets=secrets,
    constraints=st.tuples(st.lists(constraint, max_size=3), pin).map(lambda two: tuple(two[0] + two[1])),
    ports=st.lists(st.sampled_from(["http", "grpc-web", "x_1"]), unique=True).map(tuple),
    replicas=st.integers(1, 10_000),
    timeout_ms=milliseconds,
    scheduling_timeout_ms=milliseconds,
    setup_timeout_ms=milliseconds,
    max_retries_failure=retries,
    max_retries_preemption=retries,
    max_task_failures=retries,
    setup_commands=st.lists(anything, max_size=2).map(tuple),
    setup_scripts=st.lists(anything, max_size=2).map(tuple),
    workdir_files=st.dictionaries(parts, st.binary(max_size=9), max_size=2),
    bundle_id=st.just("") | words,
    coscheduling_group_by=st.none() | words,
    preemption_policy=st.integers(0, 2),
    task_image=st.just("") | words,
    container_profile=st.integers(0, 6),
    egress_policy=st.integers(0, 3),
    submit_argv=st.lists(anything, max_size=2).map(tuple),
    client_revision_date=st.just("") | words,
)
handoffs = st.builds(
    Handoff, st.just("hub"), parts, words, words, st.just("") | words, st.none() | st.integers(0, 2**50)
)
submissions = st.builds(
    Submission,
    name=st.tuples(parts, parts).map(lambda two: f"/{two[0]}/{two[1]}"),
    spec=specs,
    policy=st.sampled_from(ExistingJobPolicy),
    band=st.none() | st.sampled_from(Band),
    bundle=st.binary(max_size=9),
    handoff=st.none() | handoffs,
)


@settings(max_examples=150, deadline=None)
@given(submissions)
def test_a_submission_comes_back_as_it_went_but_for_the_cluster_pin_of_a_handoff(submission: Submission) -> None:
    expected = submission
    if submission.handoff is not None:
        kept = tuple(c for c in submission.spec.constraints if c.key != "cluster")
        expected = replace(submission, spec=replace(submission.spec, constraints=kept))
    assert over_the_wire(submission) == expected


def test_a_cluster_pin_stays_in_what_a_user_sends() -> None:
    pinned = Submission("/a/b", JobSpec(("true",), constraints=(Constraint("cluster", Op.EQ, ("lab",)),)))
    assert over_the_wire(pinned).spec.cluster_pin == "lab"


def test_the_least_request_is_one_replica_of_a_command_without_limits() -> None:
    submission = read()
    assert submission == Submission("train", JobSpec(("echo", "hi")))


@pytest.mark.parametrize("replicas", [0, 1])
def test_no_replicas_asked_for_means_one(replicas: int) -> None:
    assert read(replicas=replicas).spec.replicas == 1


def test_a_time_limit_of_zero_is_none() -> None:
    assert read(timeout={"milliseconds": "0"}, schedulingTimeout={}).spec.timeout_ms is None


def test_a_device_variant_becomes_lower_case() -> None:
    device = read(resources={"device": {"gpu": {"variant": "H100", "count": 8}}}).spec.resources.device
    assert device == Device(DeviceKind.GPU, "h100", 8)


def test_fail_if_exists_is_the_policy_error() -> None:
    assert read(failIfExists=True).policy is ExistingJobPolicy.ERROR
    assert read(failIfExists=False, existingJobPolicy="EXISTING_JOB_POLICY_KEEP").policy is ExistingJobPolicy.KEEP


def test_a_handoff_without_our_extensions_is_read() -> None:
    handoff = {"requesterId": "hub", "ownerPrincipal": "alice", "submittingUser": "a@lab", "handoffNonce": "n"}
    assert read(name="/alice/hub.x", federation=handoff).handoff == Handoff("hub", "alice", "a@lab", "n")


def test_an_email_address_is_a_user() -> None:
    assert read(name="/alice@lab.org/train").name == "/alice@lab.org/train"


def argv(*words: str) -> dict[str, Any]:
    return {"entrypoint": {"runCommand": {"argv": list(words)}}}


def constrained(*constraints: Mapping[str, Any]) -> dict[str, Any]:
    return {"constraints": list(constraints)}


PIN = {"key": "cluster", "op": 0, "value": {"stringValue": "lab"}}
HANDOFF = {"requesterId": "hub", "ownerPrincipal": "alice", "submittingUser": "a@lab", "handoffNonce": "n"}


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"name": ""}, "name", "needs a name"),
        ({"name": "a/b"}, "name", "no legal name"),
        ({"name": ".."}, "name", "no legal name"),
        ({"name": "a\nb"}, "name", "no legal name"),
        ({"name": "x" * 129}, "name", "at most 128"),
        ({"name": "/alice"}, "name", "looks like /<user>/<job>"),
        ({"name": "/alice/x/7"}, "name", "names a task"),
        ({"entrypoint": {}}, "entrypoint.run_command.argv", "empty"),
        (argv(""), "entrypoint.run_command.argv", "empty"),
        (argv("a\0b"), "entrypoint.run_command.argv[0]", "NUL"),
        (argv("a", "x" * 131_072), "entrypoint.run_command.argv", "at most 131072"),
        ({"replicas": -1}, "replicas", "between 0 and 10000, not -1"),
        ({"replicas": 10_001}, "replicas", "not 10001"),
        ({"resources": {"cpuMillicores": -1}}, "resources.cpu_millicores", "not -1"),
        ({"resources": {"memoryBytes": str(2**62)}}, "resources.memory_bytes", "between 0"),
        ({"resources": {"diskBytes": "-1"}}, "resources.disk_bytes", "not -1"),
        ({"resources": {"device": {"gpu": {"count": -8}}}}, "resources.device.gpu.count", "not -8"),
        ({"resources": {"device": {"tpu": {"count": 2**30}}}}, "resources.device.tpu.count", "between 0"),
        ({"resources": {"device": {"gpu": {"variant": "h\n"}}}}, "resources.device.gpu.variant", "control"),
        ({"timeout": {"milliseconds": "-1"}}, "timeout.milliseconds", "not -1"),
        ({"schedulingTimeout": {"milliseconds": str(2**60)}}, "scheduling_timeout.milliseconds", "between 0"),
        ({"maxRetriesFailure": -1}, "max_retries_failure", "not -1"),
        ({"maxRetriesPreemption": 10**6}, "max_retries_preemption", "between 0"),
        ({"maxTaskFailures": -1}, "max_task_failures", "not -1"),
        ({"priorityBand": 9}, "priority_band", "9 is none of PRIORITY_BAND_SYSTEM"),
        ({"existingJobPolicy": 9}, "existing_job_policy", "9 is none of"),
        ({"preemptionPolicy": 9}, "preemption_policy", "9 is none of"),
        ({"containerProfile": 99}, "container_profile", "99 is none of"),
        ({"egressPolicy": -1}, "egress_policy", "-1 is none of"),
        ({"failIfExists": True, "existingJobPolicy": 2}, "fail_if_exists", "contradicts existing_job_policy KEEP"),
        ({"environment": {"envVars": {"": "x"}}}, "environment.env_vars", "no name of a variable"),
        ({"environment": {"envVars": {"A=B": "x"}}}, "environment.env_vars", "'A=B' is no name"),
        ({"environment": {"secrets": {"A\0": "x"}}}, "environment.secrets", "no name of a variable"),
        *(
            ({"environment": {"secrets": {f"file:{name}": "x"}}}, "environment.secrets", "no name of a secret file")
            for name in ("", ".", "..", "a/b", "/etc/x", "../x", "a\n", "a b", "\u00e9", "x" * 129)
        ),
        ({"environment": {"secrets": {f"file:{n}": "" for n in range(65)}}}, "environment.secrets", "most 64 entries"),
        ({"environment": {"secrets": {"file:key": "hunter2" * 20_000}}}, "environment", "at most 131072"),
        ({"environment": {"envVars": {"A": "x\0"}}}, "environment.env_vars", "the value of A holds a NUL"),
        ({"environment": {"envVars": {"A": "x" * 131_072}}}, "environment", "at most 131072"),
        ({"environment": {"setupScripts": ["a\0"]}}, "environment.setup_scripts[0]", "NUL"),
        ({"ports": ["1st"]}, "ports[0]", "'1st' is no port name"),
        ({"ports": ["a-b", "A_b"]}, "ports[1]", "asked for twice (as IRIS_PORT_A_B)"),
        ({"ports": [f"p{n}" for n in range(65)]}, "ports", "at most 64 entries, not 65"),
        (constrained({"op": 0, "value": {"stringValue": "x"}}), "constraints[0].key", "must not be empty"),
        (constrained({"key": "region", "op": 0}), "constraints[0].value", "EQ needs a value"),
        (constrained({"key": "region", "op": 0, "value": {}}), "constraints[0].value", "EQ needs a value"),
        (constrained({"key": "region", "op": 0, "value": {"stringValue": ""}}),
         "constraints[0].value.string_value", "y"),
        (constrained({"key": "region", "op": 42, "value": {"intValue": "1"}}), "constraints[0].op", "42 is none of"),
        (constrained({"key": "region", "mode": 7, "value": {"intValue": "1"}}), "constraints[0].mode", "7 is none"),
        (constrained({"key": "region", "op": 8}), "constraints[0]", "IN takes its values"),
        (constrained({"key": "region", "op": 8, "values": [{}]}), "constraints[0].values[0]", "holds no value"),
        (constrained({"key": "region", "op": 2, "value": {"intValue": "1"}}), "constraints[0].value", "takes no value"),
        (constrained({"key": "a", "op": 1, "values": [{"intValue": "1"}]}), "constraints[0].values", "only IN"),
        (constrained({"key": "a", "op": 4, "value": {"stringValue": "big"}}),
         "constraints[0].value", "compares numbers"),
        (constrained({"key": "a", "value": {"floatValue": "NaN"}}), "constraints[0].value.float_value", "finite"),
        (constrained(*[{"key": "a", "op": 2}] * 65), "constraints", "at most 64"),
        (constrained(PIN, {**PIN, "key": "backend"}), "constraints", "to a cluster or to a backend, not to both"),
        (constrained(PIN, PIN), "constraints", "one cluster pin, not 2"),
        (constrained({**PIN, "op": 1}), "constraints[0].op", "a cluster pin is EQ"),
        (constrained({**PIN, "value": {"intValue": "1"}}), "constraints[0].op", "with a `string_value`"),
        (constrained({**PIN, "mode": 1}), "constraints[0].mode", "mere preference"),
        ({"coscheduling": {}}, "coscheduling.group_by", "must not be empty"),
        ({"bundleId": "a\nb"}, "bundle_id", "control characters"),
        ({"taskImage": "x" * 1_025}, "task_image", "at most 1024"),
        ({"submitArgv": ["\0"]}, "submit_argv[0]", "NUL"),
        (argv("true") | {"entrypoint": {**argv("true")["entrypoint"], "workdirFiles": {"../x": ""}}},
         "entrypoint.workdir_files", "'../x' is no file below"),
        (argv("true") | {"entrypoint": {**argv("true")["entrypoint"], "workdirFileRefs": {"a": "r"}}},
         "entrypoint.workdir_file_refs", "send the contents in entrypoint.workdir_files, or a workspace"),
        ({"federation": {**HANDOFF, "requesterId": "Hub"}}, "federation.requester_id", "no cluster name"),
        ({"federation": {**HANDOFF, "ownerPrincipal": "a/b"}}, "federation.owner_principal", "no legal name"),
        ({"federation": {**HANDOFF, "submittingUser": ""}}, "federation.submitting_user", "must not be empty"),
        ({"federation": {**HANDOFF, "handoffNonce": ""}}, "federation.handoff_nonce", "must not be empty"),
        ({"federation": {**HANDOFF, "handoffNonce": "n" * 257}}, "federation.handoff_nonce", "at most 256"),
        ({"federation": {**HANDOFF, "expiresMs": "-1"}}, "federation.expires_ms", "not -1"),
    ],
)  # fmt: skip
def test_a_bad_field_is_refused_by_its_name(fields: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read(**fields)
    assert caught.value.field == field
    assert words in caught.value.message
    assert len(caught.value.message) < 600


def test_secret_files_are_taken_up_to_their_bounds() -> None:
    names = ["..a", "Az09._-", "x" * 128, *(f".{n}" for n in range(61))]
    asked = {f"file:{name}": "two\nlines\n" for name in names} | {"TOKEN": "a variable"}
    assert read(environment={"secrets": asked}).spec.secrets == asked


def test_an_operators_lower_limit_holds() -> None:
    with pytest.raises(InvalidArgument, match="between 0 and 2, not 3"):
        read(replace(BOUNDS, replicas=2), replicas=3)


@settings(max_examples=300, deadline=None)
@given(submissions, st.data())
def test_a_damaged_request_is_accepted_or_refused_as_an_argument(submission: Submission, data: st.DataObject) -> None:
    encoded = bytearray(submission_to_wire(submission).SerializeToString())
    encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(DecodeError, InvalidArgument):
        submission_from_wire(Controller.LaunchJobRequest.FromString(bytes(encoded)), BOUNDS)


def test_the_request_shown_of_a_job_tells_all_but_its_secrets() -> None:
    spec = JobSpec(("true",), env={"A": "b"}, secrets={"TOKEN": "hunter2"}, workdir_files={"f": b"hunter2"})
    job = Job(
        job_id="/alice/train", user="alice", submitting_user="a@lab", spec=spec, band=Band.BATCH, submitted_ms=1,
        task_count=1,
    )  # fmt: skip
    shown = request_of_job(job)
    assert dict(shown.environment.secrets) == {"TOKEN": MASK}
    assert b"hunter2" not in shown.SerializeToString()
    as_json = json.loads(json_format.MessageToJson(shown))
    assert (as_json["name"], as_json["priorityBand"]) == ("/alice/train", "PRIORITY_BAND_BATCH")
    assert as_json["environment"]["envVars"] == {"A": "b"}
