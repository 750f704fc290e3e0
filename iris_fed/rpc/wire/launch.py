"""LaunchJob as it comes in: from a request to a checked Submission."""

import re
from collections.abc import Iterable, Mapping, Sequence

from iris_fed.errors import InvalidArgument
from iris_fed.model import limits
from iris_fed.model.files import is_secret_file_name
from iris_fed.model.ids import check_cluster_name, check_component, parse_job_id
from iris_fed.model.limits import Limits
from iris_fed.model.spec import SECRET_FILE, Handoff, JobSpec, Submission
from iris_fed.model.states import ExistingJobPolicy
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2
from iris_fed.rpc.wire.checks import (
    at_most,
    duration_ms,
    no_nul,
    optional_word,
    size_within,
    whole,
    word,
)
from iris_fed.rpc.wire.enums import POLICIES, band_from_wire, known_number
from iris_fed.rpc.wire.resources import (
    constraints_from_wire,
    resources_from_wire,
)

MAX_NAME_BYTES = 255
"""Of one part of a path: what file systems take."""
_PORT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def submission_from_wire(request: Controller.LaunchJobRequest, bounds: Limits) -> Submission:
    """A bare name stays bare: whoever knows the caller makes a root job's id of it.

    Raises InvalidArgument naming the first field that is illegal.
    """
    size_without_bundle(request, bounds)
    return Submission(
        name=_name(request.name),
        spec=spec_from_wire(request, bounds),
        policy=_policy(request),
        band=band_from_wire(request.priority_band, "priority_band"),
        bundle=request.bundle_blob,
        handoff=_handoff(request.federation) if request.HasField("federation") else None,
    )


def size_without_bundle(request: Controller.LaunchJobRequest, bounds: Limits) -> None:
    """What is not the bundle is kept in the database, and read with every look at the job."""
    size = request.ByteSize() - len(request.bundle_blob)
    if size > bounds.request_bytes:
        raise InvalidArgument(
            f"the request has {size} bytes beside its bundle; at most {bounds.request_bytes} are taken: "
            "larger files go into the bundle",
            "entrypoint",
        )


def spec_from_wire(request: Controller.LaunchJobRequest, bounds: Limits) -> JobSpec:
    """Raises InvalidArgument naming the first field that is illegal."""
    entry, environment = request.entrypoint, request.environment
    _refuse_references(entry)
    env = _environment(environment.env_vars, "environment.env_vars")
    secrets = _secrets(environment.secrets, "environment.secrets")
    size_within(
        [f"{name}={value}" for names in (env, secrets) for name, value in names.items()],
        bounds.env_bytes,
        "environment",
    )
    return JobSpec(
        argv=_argv(entry.run_command.argv, bounds),
        resources=resources_from_wire(request.resources),
        env=env,
        secrets=secrets,
        constraints=constraints_from_wire(request.constraints, "constraints"),
        ports=_ports(request.ports),
        replicas=whole(request.replicas, 0, bounds.replicas, "replicas") or 1,
        timeout_ms=duration_ms(request.timeout, "timeout"),
        setup_timeout_ms=duration_ms(request.setup_timeout, "setup_timeout"),
        scheduling_timeout_ms=duration_ms(request.scheduling_timeout, "scheduling_timeout"),
        max_retries_failure=whole(request.max_retries_failure, 0, limits.MAX_RETRIES, "max_retries_failure"),
        max_retries_preemption=whole(request.max_retries_preemption, 0, limits.MAX_RETRIES, "max_retries_preemption"),
        max_task_failures=whole(request.max_task_failures, 0, bounds.replicas, "max_task_failures"),
        setup_commands=_steps(entry.setup_commands, bounds, "entrypoint.setup_commands"),
        setup_scripts=_steps(environment.setup_scripts, bounds, "environment.setup_scripts"),
        workdir_files=_files(entry.workdir_files, "entrypoint.workdir_files"),
        bundle_id=optional_word(request.bundle_id, limits.MAX_KEY_CHARS, "bundle_id"),
        coscheduling_group_by=_group_by(request),
        preemption_policy=known_number("JobPreemptionPolicy", request.preemption_policy, "preemption_policy"),
        task_image=optional_word(request.task_image, limits.MAX_VALUE_CHARS, "task_image"),
        container_profile=known_number("ContainerProfile", request.container_profile, "container_profile"),
        egress_policy=known_number("EgressPolicy", request.egress_policy, "egress_policy"),
        submit_argv=_submit_argv(request, bounds),
        client_revision_date=optional_word(request.client_revision_date, limits.MAX_KEY_CHARS, "client_revision_date"),
    )


def _name(name: str) -> str:
    if not name:
        raise InvalidArgument("a job needs a name", "name")
    if name.startswith("/"):
        return str(parse_job_id(name, "name"))
    check_component(name, "name")
    return name


def _policy(request: Controller.LaunchJobRequest) -> ExistingJobPolicy:
    policy = POLICIES.read(request.existing_job_policy, "existing_job_policy")
    if not request.fail_if_exists or policy is ExistingJobPolicy.ERROR:
        return policy
    if policy is not ExistingJobPolicy.UNSPECIFIED:
        raise InvalidArgument(f"contradicts existing_job_policy {policy.value}", "fail_if_exists")
    return ExistingJobPolicy.ERROR


def _argv(argv: Iterable[str], bounds: Limits) -> tuple[str, ...]:
    field = "entrypoint.run_command.argv"
    words = no_nul(argv, field)
    if not words or not words[0]:
        raise InvalidArgument("the command is empty", field)
    size_within(words, bounds.argv_bytes, field)
    return words


def _submit_argv(request: Controller.LaunchJobRequest, bounds: Limits) -> tuple[str, ...]:
    at_most(request.submit_argv, limits.MAX_SUBMIT_ARGV, "submit_argv")
    size_within(request.submit_argv, bounds.argv_bytes, "submit_argv")
    return no_nul(request.submit_argv, "submit_argv")


def _steps(steps: Sequence[str], bounds: Limits, field: str) -> tuple[str, ...]:
    at_most(steps, limits.MAX_SETUP_STEPS, field)
    size_within(steps, bounds.argv_bytes, field)
    return no_nul(steps, field)


def _environment(variables: Mapping[str, str], field: str) -> dict[str, str]:
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name or not name.isprintable():
            raise InvalidArgument(f"{name[:80]!r} is no name of a variable: printable, not empty, without '='", field)
        if "\0" in value:
            raise InvalidArgument(f"the value of {name[:80]} holds a NUL byte", field)
    return dict(variables)


def _secrets(secrets: Mapping[str, str], field: str) -> dict[str, str]:
    """Variables, and files of the task by `file:NAME`."""
    files = [key.removeprefix(SECRET_FILE) for key in secrets if key.startswith(SECRET_FILE)]
    at_most(files, limits.MAX_SECRET_FILES, field)
    for name in files:
        if not is_secret_file_name(name):
            words = "is no name of a secret file: 1 to 128 letters, digits, '.', '_' or '-', not '.' or '..'"
            raise InvalidArgument(f"{name[:80]!r} {words}", field)
    return _environment(secrets, field)


def _ports(names: Sequence[str]) -> tuple[str, ...]:
    at_most(names, limits.MAX_PORTS, "ports")
    seen: set[str] = set()
    for index, name in enumerate(names):
        if not _PORT_NAME.fullmatch(name):
            raise InvalidArgument(
                f"{name[:80]!r} is no port name: a letter, then letters, digits, '_' or '-'", f"ports[{index}]"
            )
        variable = name.upper().replace("-", "_")
        if variable in seen:
            raise InvalidArgument(f"{name!r} is asked for twice (as IRIS_PORT_{variable})", f"ports[{index}]")
        seen.add(variable)
    return tuple(names)


def _refuse_references(entry: job_pb2.RuntimeEntrypoint) -> None:
    """A job that would start without files that it names is no job to take, ours or a peer's."""
    if entry.workdir_file_refs:
        words = "references to files are not followed here: send the contents in entrypoint.workdir_files, "
        raise InvalidArgument(words + "or a workspace in bundle_blob", "entrypoint.workdir_file_refs")


def _files(files: Mapping[str, bytes], field: str) -> dict[str, bytes]:
    at_most(files, limits.MAX_WORKDIR_FILES, field)
    for path in files:
        parts = path.split("/")
        wrong = any(part in ("", ".", "..") or len(part.encode()) > MAX_NAME_BYTES for part in parts)
        if wrong or len(path) > limits.MAX_VALUE_CHARS or not path.isprintable():
            raise InvalidArgument(f"{path[:80]!r} is no file below the work directory", field)
        if clash := next((above for end in range(1, len(parts)) if (above := "/".join(parts[:end])) in files), None):
            raise InvalidArgument(f"{clash[:80]!r} is named as a file and as a folder", field)
    return dict(files)


def _group_by(request: Controller.LaunchJobRequest) -> str | None:
    if not request.HasField("coscheduling"):
        return None
    return word(request.coscheduling.group_by, limits.MAX_KEY_CHARS, "coscheduling.group_by")


def _handoff(handoff: Controller.FederationHandoff) -> Handoff:
    check_cluster_name(handoff.requester_id, "federation.requester_id")
    check_component(handoff.owner_principal, "federation.owner_principal")
    submitter = word(handoff.submitting_user, limits.MAX_VALUE_CHARS, "federation.submitting_user")
    expires = whole(handoff.expires_ms, 0, 2**53, "federation.expires_ms") if handoff.HasField("expires_ms") else None
    return Handoff(
        requester=handoff.requester_id,
        owner=handoff.owner_principal,
        submitting_user=submitter,
        nonce=word(handoff.handoff_nonce, limits.MAX_NONCE_CHARS, "federation.handoff_nonce"),
        database_id=optional_word(handoff.database_id, limits.MAX_DATABASE_ID_CHARS, "federation.database_id"),
        expires_ms=expires,
    )
