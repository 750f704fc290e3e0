"""A job from the words of a Python program: the common part of a LaunchJobRequest.

What is not here is set on the message itself, whose fields the IDL documents.
"""

import os
from collections.abc import Mapping, Sequence

from iris_fed.client import workspace as workspaces
from iris_fed.model.spec import SECRET_FILE
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2

GANG_GROUP = "backend"
"""What the members of a gang have in common unless said otherwise: the engine that starts them."""


def command_job(  # noqa: PLR0913 - one parameter a field
    argv: Sequence[str],
    *,
    name: str = "",
    env: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    secret_files: Mapping[str, str] | None = None,
    cpu_millicores: int = 0,
    memory_bytes: int = 0,
    gpu: tuple[str, int] | None = None,
    replicas: int = 1,
    gang: bool | str = False,
    setup: Sequence[str] = (),
    workspace: str | os.PathLike[str] | bytes | None = None,
    files: Mapping[str, bytes] | None = None,
) -> Controller.LaunchJobRequest:
    """A job of `replicas` tasks that run `argv`. Resources are those of one replica, 0 = not asked for.

    `gpu` is (variant, chips), variant "" = any. `name` is a bare name or a whole id (/<user>/<job>);
    inside a task a bare name is a child's. `secrets` are variables whose values no answer shows;
    `secret_files` are texts by file name, which the task finds in the directory $IRIS_SECRETS_DIR.
    `gang`: all replicas start together or none does; a text is the attribute that their places share.
    `setup` are shell commands to run before `argv`. `workspace` is a directory to send along, or what
    `workspace.pack` made of one; `files` are contents by path, laid over it.

    Raises InvalidArgument when the workspace cannot be packed.
    """
    hidden = {**(secrets or {}), **{SECRET_FILE + name: text for name, text in (secret_files or {}).items()}}
    request = Controller.LaunchJobRequest(
        name=name,
        entrypoint=job_pb2.RuntimeEntrypoint(
            run_command=job_pb2.CommandEntrypoint(argv=argv), setup_commands=setup, workdir_files=dict(files or {})
        ),
        environment=job_pb2.EnvironmentConfig(env_vars=dict(env or {}), secrets=hidden),
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
    if gang:
        request.coscheduling.group_by = GANG_GROUP if gang is True else gang
    if workspace is not None:
        request.bundle_blob = workspace if isinstance(workspace, bytes) else workspaces.pack(workspace)
    return request


def equals(key: str, value: str) -> job_pb2.Constraint:
    """The constraint `key = value`; with key `cluster` or `backend` it pins the job there."""
    return job_pb2.Constraint(key=key, op=job_pb2.CONSTRAINT_OP_EQ, value=job_pb2.AttributeValue(string_value=value))
