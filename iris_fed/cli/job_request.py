"""From the flags of `job run` to the request that is sent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from iris_fed.cli.job_attachments import NOTHING, Attachments
from iris_fed.cli.parse import (
    UsageError,
    name_from_command,
    parse_constraint,
    parse_cpu,
    parse_duration,
    parse_env,
    parse_gpu,
    parse_size,
)
from iris_fed.client.request import command_job
from iris_fed.model.constraints import BACKEND_KEY, CLUSTER_KEY, Constraint, Op, Scalar
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2

T = TypeVar("T")

MAX_SHOWN_WORDS = 1_000
MAX_SHOWN_CHARS = 16_384

_BANDS = {
    "production": job_pb2.PRIORITY_BAND_PRODUCTION,
    "interactive": job_pb2.PRIORITY_BAND_INTERACTIVE,
    "batch": job_pb2.PRIORITY_BAND_BATCH,
    "system": job_pb2.PRIORITY_BAND_SYSTEM,
}
_POLICIES = {
    "error": job_pb2.EXISTING_JOB_POLICY_ERROR,
    "keep": job_pb2.EXISTING_JOB_POLICY_KEEP,
    "recreate": job_pb2.EXISTING_JOB_POLICY_RECREATE,
}


@dataclass(frozen=True, slots=True)
class JobFlags:
    """As typed; "" or 0 = not given."""

    name: str = ""
    env: Sequence[str] = ()
    gpu: str = ""
    cpu: str = ""
    memory: str = ""
    disk: str = ""
    replicas: int = 1
    target_cluster: str = ""
    backend: str = ""
    region: str = ""
    zone: str = ""
    constraints: Sequence[str] = ()
    priority: str = ""
    timeout: str = ""
    scheduling_timeout: str = ""
    max_retries: int = 0
    ports: Sequence[str] = ()
    if_exists: str = ""
    preferences: Sequence[str] = ()
    setup: Sequence[str] = ()
    setup_timeout: str = ""
    gang: bool = False
    max_task_failures: int = 0
    max_retries_preemption: int = 0


def build_request(
    flags: JobFlags,
    command: Sequence[str],
    environ: Mapping[str, str],
    suffix: str,
    attachments: Attachments = NOTHING,
) -> Controller.LaunchJobRequest:
    """`environ` gives the values of bare `-e KEY`; `suffix` makes a chosen name unique.

    Raises UsageError, naming the flag.
    """
    if not command:
        raise UsageError("what is to run? iris-fed job run [flags] -- COMMAND [ARGUMENT...]")
    request = command_job(
        command,
        name=flags.name or name_from_command(command, suffix),
        env=parse_env(flags.env, dict(environ)),
        cpu_millicores=parse_cpu(flags.cpu) if flags.cpu else 0,
        memory_bytes=parse_size(flags.memory, "--memory") if flags.memory else 0,
        gpu=parse_gpu(flags.gpu) if flags.gpu else None,
        replicas=flags.replicas,
        gang=flags.gang,
        setup=flags.setup,
        secrets=attachments.secrets,
        secret_files=attachments.secret_files,
        files=attachments.files,
        workspace=attachments.workspace,
    )
    if flags.disk:
        request.resources.disk_bytes = parse_size(flags.disk, "--disk")
    request.constraints.extend(_to_wire(constraint) for constraint in _constraints(flags))
    request.ports.extend(flags.ports)
    _set_retries(request, flags)
    _set_times_and_choices(request, flags)
    return request


def shown_argv(arguments: Sequence[str], command_words: int) -> list[str]:
    """The command line as others may see it: `arguments` (after `iris-fed`) with the values of -e masked.

    Its last `command_words` words are the job's own and stay as they are. Empty when it is too long
    to be worth keeping.
    """
    if sum(map(len, arguments)) > MAX_SHOWN_CHARS or len(arguments) > MAX_SHOWN_WORDS:
        return []
    flags_end = len(arguments) - command_words
    shown = ["iris-fed"]
    for index, word in enumerate(arguments):
        is_flag = index < flags_end
        if is_flag and index > 0 and arguments[index - 1] == "-e":
            word = _masked(word)
        elif is_flag and word.startswith("-e") and word != "-e":
            word = "-e" + _masked(word[2:])
        shown.append(word)
    return shown


def _masked(pair: str) -> str:
    key, separator, _ = pair.partition("=")
    return f"{key}=***" if separator else key


def _set_retries(request: Controller.LaunchJobRequest, flags: JobFlags) -> None:
    if flags.max_retries:
        request.max_retries_failure = flags.max_retries
    if flags.max_retries_preemption:
        request.max_retries_preemption = flags.max_retries_preemption
    if flags.max_task_failures:
        request.max_task_failures = flags.max_task_failures


def _set_times_and_choices(request: Controller.LaunchJobRequest, flags: JobFlags) -> None:
    if flags.timeout:
        request.timeout.milliseconds = parse_duration(flags.timeout, "--timeout")
    if flags.setup_timeout:
        request.setup_timeout.milliseconds = parse_duration(flags.setup_timeout, "--setup-timeout")
    if flags.scheduling_timeout:
        request.scheduling_timeout.milliseconds = parse_duration(flags.scheduling_timeout, "--scheduling-timeout")
    if flags.priority:
        request.priority_band = _choice(_BANDS, flags.priority, "--priority")
    if flags.if_exists:
        request.existing_job_policy = _choice(_POLICIES, flags.if_exists, "--if-exists")


def _constraints(flags: JobFlags) -> list[Constraint]:
    found = [parse_constraint(text) for text in flags.constraints]
    found += [replace(parse_constraint(text, "--prefer"), preferred=True) for text in flags.preferences]
    pins = ((CLUSTER_KEY, flags.target_cluster), (BACKEND_KEY, flags.backend))
    places = (("region", flags.region), ("zone", flags.zone))
    return found + [Constraint(key, Op.EQ, (value,)) for key, value in pins + places if value]


def _to_wire(constraint: Constraint) -> job_pb2.Constraint:
    message = job_pb2.Constraint(key=constraint.key, op=f"CONSTRAINT_OP_{constraint.op}")
    if constraint.preferred:
        message.mode = job_pb2.CONSTRAINT_MODE_PREFERRED
    values = [_attribute(value) for value in constraint.values]
    if constraint.op is Op.IN:
        message.values.extend(values)
    elif values:
        message.value.CopyFrom(values[0])
    return message


def _attribute(value: Scalar) -> job_pb2.AttributeValue:
    if isinstance(value, str):
        return job_pb2.AttributeValue(string_value=value)
    if isinstance(value, int):
        return job_pb2.AttributeValue(int_value=value)
    return job_pb2.AttributeValue(float_value=value)


def _choice(choices: Mapping[str, T], text: str, option: str) -> T:
    if text.lower() not in choices:
        raise UsageError(f"{option} {text!r}: choose one of {', '.join(choices)}")
    return choices[text.lower()]
