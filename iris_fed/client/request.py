"""A job from the words of a Python program: the common part of a LaunchJobRequest.

What is not here is set on the message itself, whose fields the IDL documents.
"""

from collections.abc import Mapping, Sequence

from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2


def command_job(
    argv: Sequence[str],
    *,
    name: str = "",
    env: Mapping[str, str] | None = None,
    cpu_millicores: int = 0,
    memory_bytes: int = 0,
    gpu: tuple[str, int] | None = None,
    replicas: int = 1,
) -> Controller.LaunchJobRequest:
    """A job of `replicas` tasks that run `argv`. Resources are those of one replica, 0 = not asked for.

    `gpu` is (variant, chips), variant "" = any. `name` is a bare name or a whole id (/<user>/<job>).
    """
    request = Controller.LaunchJobRequest(
        name=name,
        entrypoint=job_pb2.RuntimeEntrypoint(run_command=job_pb2.CommandEntrypoint(argv=argv)),
        environment=job_pb2.EnvironmentConfig(env_vars=dict(env or {})),
        replicas=replicas,
    )
    if cpu_millicores:
        request.resources.cpu_millicores = cpu_millicores
    if memory_bytes:
        request.resources.memory_bytes = memory_bytes
    if gpu is not None:
        variant, count = gpu
        request.resources.device.gpu.variant = variant
        request.resources.device.gpu.count = count
    return request


def equals(key: str, value: str) -> job_pb2.Constraint:
    """The constraint `key = value`; with key `cluster` or `backend` it pins the job there."""
    return job_pb2.Constraint(key=key, op=job_pb2.CONSTRAINT_OP_EQ, value=job_pb2.AttributeValue(string_value=value))
