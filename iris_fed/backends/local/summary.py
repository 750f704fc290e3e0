"""What a local backend says of itself. Pure but for what it detects of the machine."""

from iris_fed.backends.local import host
from iris_fed.backends.local.settings import LocalSettings
from iris_fed.backends.posix.capacity import Ledger
from iris_fed.model.constraints import DEVICE_TYPE, DEVICE_VARIANT
from iris_fed.model.resources import Availability, BackendSummary, DeviceKind, NodeShape


def machine_shape(settings: LocalSettings) -> NodeShape:
    """As configured, or as detected."""
    cpu, memory = settings.cpu_millicores, settings.memory_bytes
    return NodeShape(
        host.detect_cpu_millicores() if cpu is None else cpu,
        host.detect_memory_bytes() if memory is None else memory,
        dict(settings.devices),
    )


def summarise(
    settings: LocalSettings, ledger: Ledger, epoch_ms: int, running: int, kind: str = "local"
) -> BackendSummary:
    """Without devices there is no availability: an empty map would say that nothing is free."""
    devices = settings.devices
    types = (DeviceKind.CPU.value, settings.device_type) if devices else (DeviceKind.CPU.value,)
    attributes = {DEVICE_TYPE: types, **settings.attributes}
    if devices:
        attributes[DEVICE_VARIANT] = tuple(devices)
    return BackendSummary(
        backend_id=settings.backend_id,
        name=settings.name or settings.backend_id,
        kind=kind,
        attributes=attributes,
        availability=Availability(epoch_ms, ledger.free().devices, dict(devices)) if devices else None,
        largest_node=ledger.shape,
        worker_count=1,
        running_task_count=running,
    )
