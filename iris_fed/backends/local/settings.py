"""What the operator may say about a local backend."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """None = detect. `devices` counts chips per lower-case variant; `attributes` are advertised as
    given, beside `device-type` and `device-variant`.

    `kill_grace_s`: seconds between SIGTERM and SIGKILL. `output_bytes`: how much of an attempt's
    output is kept. `idle_s`: how long the launcher outlives its last attempt and controller.
    `run_as`: whom tasks run as, see `accounts`; None = whoever we are.
    """

    backend_id: str = "local"
    name: str = ""
    cpu_millicores: int | None = None
    memory_bytes: int | None = None
    devices: Mapping[str, int] = field(default_factory=dict)
    device_type: str = "gpu"
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kill_grace_s: float = 5.0
    output_bytes: int = 64 * 1024 * 1024
    advertise_host: str = "127.0.0.1"
    use_cgroup: bool = True
    run_as: str | Mapping[str, str] | None = None
    idle_s: float = 60.0
