"""Who holds how much of one machine. Pure accounting, shared with the scripted backend."""

from collections.abc import Mapping
from dataclasses import dataclass

from iris_fed.model.resources import Device, NodeShape, Resources


@dataclass(frozen=True, slots=True)
class Allotment:
    """What one attempt holds. `devices` are the machine's indexes, ascending, all of `variant`."""

    cpu_millicores: int = 0
    memory_bytes: int = 0
    variant: str = ""
    devices: tuple[int, ...] = ()


class Ledger:
    """Indexes are counted through the variants in the order of `shape.devices`."""

    def __init__(self, shape: NodeShape) -> None:
        self.shape = shape
        self._held: dict[str, Allotment] = {}
        self._indexes: dict[str, range] = {}
        first = 0
        for variant, count in shape.devices.items():
            self._indexes[variant] = range(first, first + count)
            first += count

    def reserve(self, uid: str, wanted: Resources) -> Allotment | None:
        """The lowest free devices, and the rest; None when something of it is not free."""
        free = self.free()
        if wanted.cpu_millicores > max(0, free.cpu_millicores) or wanted.memory_bytes > max(0, free.memory_bytes):
            return None
        variant, devices = "", tuple[int, ...]()
        if wanted.device is not None and wanted.chips > 0:
            found = self._choose(wanted.device, wanted.chips)
            if found is None:
                return None
            variant, devices = found
        allotment = Allotment(wanted.cpu_millicores, wanted.memory_bytes, variant, devices)
        self._held[uid] = allotment
        return allotment

    def restore(self, uid: str, allotment: Allotment) -> None:
        """Account for what already runs, even where the machine has shrunk since."""
        self._held[uid] = allotment

    def release(self, uid: str) -> None:
        self._held.pop(uid, None)

    def held(self, uid: str) -> Allotment | None:
        return self._held.get(uid)

    def free(self) -> NodeShape:
        """What nobody holds; never negative."""
        held = self._held.values()
        return NodeShape(
            max(0, self.shape.cpu_millicores - sum(one.cpu_millicores for one in held)),
            max(0, self.shape.memory_bytes - sum(one.memory_bytes for one in held)),
            {variant: len(self._free_indexes(variant)) for variant in self._indexes},
        )

    def _choose(self, device: Device, count: int) -> tuple[str, tuple[int, ...]] | None:
        for variant in self._indexes:
            if device.variant and device.variant != variant:
                continue
            free = self._free_indexes(variant)
            if len(free) >= count:
                return variant, free[:count]
        return None

    def _free_indexes(self, variant: str) -> tuple[int, ...]:
        taken = {index for one in self._held.values() for index in one.devices}
        return tuple(index for index in self._indexes[variant] if index not in taken)


def lacking(shape: NodeShape, free: NodeShape, wanted: Resources) -> str:
    """One sentence on why `wanted` could not be had."""
    for name, want, have in (
        ("CPU", wanted.cpu_millicores, free.cpu_millicores),
        ("memory", wanted.memory_bytes, free.memory_bytes),
    ):
        if want > have:
            unit = "millicores" if name == "CPU" else "bytes"
            total = shape.cpu_millicores if name == "CPU" else shape.memory_bytes
            return f"{want} {unit} of {name} asked for, {have} of {total} free"
    token = wanted.device.token if wanted.device is not None else "device"
    return f"{wanted.chips} {token} asked for, free: {_counts(free.devices)} of {_counts(shape.devices)}"


def _counts(devices: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {variant}" for variant, count in devices.items()) or "none"
