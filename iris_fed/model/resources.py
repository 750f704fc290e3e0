"""What a task asks for, and what places offer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum


class DeviceKind(StrEnum):
    CPU = "cpu"
    GPU = "gpu"
    TPU = "tpu"


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator request. `variant` is lower case (`h100`), empty = any; `count` in chips."""

    kind: DeviceKind
    variant: str = ""
    count: int = 0
    topology: str = ""

    @property
    def token(self) -> str:
        """The key under which capacity is counted: the variant, or the kind where none is asked for."""
        return self.variant or self.kind.value


@dataclass(frozen=True, slots=True)
class Resources:
    """Of one replica. Zero means: not asked for."""

    cpu_millicores: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    device: Device | None = None

    @property
    def chips(self) -> int:
        """Accelerator chips of one replica; a GPU or TPU request without a count means one."""
        if self.device is None or self.device.kind is DeviceKind.CPU:
            return 0
        return max(1, self.device.count)


@dataclass(frozen=True, slots=True)
class NodeShape:
    """Totals of one machine: the bound for one replica. `devices` counts chips per variant."""

    cpu_millicores: int
    memory_bytes: int
    devices: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeFree:
    """What is free on one machine now; `devices` as in NodeShape. `total` is the whole of the
    machine, None = not told. It stands for `count` machines like it, of which it is the emptiest."""

    node: str
    cpu_millicores: int
    memory_bytes: int
    devices: Mapping[str, int] = field(default_factory=dict)
    total: NodeShape | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class Usage:
    """Of a whole process tree. Sizes in bytes, CPU in thousandths of a core over the last sample."""

    memory_bytes: int = 0
    memory_peak_bytes: int = 0
    cpu_millicores: int = 0
    process_count: int = 0
    disk_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Availability:
    """Counted capacity of a backend (wire contract, "Capacity"). Per token: free now, and in all."""

    observation_epoch_ms: int
    amounts: Mapping[str, int]
    total_amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BackendSummary:
    """What a backend says of itself. `availability` None = no metric, match on shape alone.

    `largest_node` None = it does not say (a peer without our extension). `trouble`: why nothing is started on it
    now, "" = it takes work.
    """

    backend_id: str
    name: str
    kind: str
    capabilities: tuple[str, ...] = ()
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    availability: Availability | None = None
    largest_node: NodeShape | None = None
    worker_count: int = 0
    pending_task_count: int = 0
    running_task_count: int = 0
    trouble: str = ""


def without_times(backends: Sequence[BackendSummary] | None) -> tuple[BackendSummary, ...]:
    """What they say, without when they said it: equal = no news. None = nothing was said yet."""
    return tuple(
        replace(backend, availability=replace(backend.availability, observation_epoch_ms=0))
        if backend.availability
        else backend
        for backend in backends or ()
    )
