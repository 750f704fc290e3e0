"""What a local backend adds to a task's environment. Pure but for who the user is."""

import os
import pwd
import re
from collections.abc import Mapping, Sequence

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DEVICES = "CUDA_VISIBLE_DEVICES"


def task_environment(
    asked: Mapping[str, str],
    workdir: str,
    host: str,
    ports: Mapping[str, int],
    devices: Sequence[int] | None,
    uid: int | None = None,
) -> dict[str, str]:
    """`asked`, completed. `devices` None = this machine declares none, so nothing is said of them;
    empty = the task may see none of those that are here. `uid` None = it runs as we do."""
    user = pwd.getpwuid(os.getuid() if uid is None else uid)
    env = {"PATH": _PATH, "HOME": user.pw_dir, "USER": user.pw_name, "LANG": "C.UTF-8", **asked}
    env["IRIS_WORKDIR"] = workdir
    env["IRIS_ADVERTISE_HOST"] = host
    env.update({port_variable(name): str(port) for name, port in ports.items()})
    if devices is not None:
        env[_DEVICES] = ",".join(str(index) for index in devices)
    return env


def port_variable(name: str) -> str:
    """`http-2` becomes `IRIS_PORT_HTTP_2`."""
    return "IRIS_PORT_" + re.sub(r"[^A-Z0-9]", "_", name.upper())
