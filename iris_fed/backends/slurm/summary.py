"""What a Slurm backend says of itself. Pure."""

from collections.abc import Mapping

from iris_fed.backends.slurm.machines import Machines
from iris_fed.backends.slurm.settings import SlurmSettings
from iris_fed.model.constraints import DEVICE_TYPE, DEVICE_VARIANT
from iris_fed.model.resources import Availability, BackendSummary, DeviceKind


def summarise(settings: SlurmSettings, machines: Machines, epoch_ms: int, running: int) -> BackendSummary:
    """Without GPUs there is no availability: an empty map would say that nothing is free."""
    totals = machines.totals()
    return BackendSummary(
        backend_id=settings.backend_id,
        name=settings.shown_name,
        kind="slurm",
        attributes=_attributes(settings, machines, tuple(sorted(totals))),
        availability=Availability(epoch_ms, machines.amounts(), totals) if totals else None,
        largest_node=machines.largest(),
        worker_count=machines.count(),
        running_task_count=running,
    )


def _attributes(
    settings: SlurmSettings, machines: Machines, variants: tuple[str, ...]
) -> Mapping[str, tuple[str, ...]]:
    types = (DeviceKind.CPU.value, DeviceKind.GPU.value) if variants else (DeviceKind.CPU.value,)
    offered = {
        DEVICE_TYPE: types,
        DEVICE_VARIANT: variants,
        "slurm-partition": settings.partitions,
        "slurm-account": settings.accounts,
        "slurm-qos": settings.qos,
        "slurm-reservation": settings.reservations,
        "slurm-feature": machines.features,
        **settings.attributes,
    }
    return {key: values for key, values in offered.items() if values}
