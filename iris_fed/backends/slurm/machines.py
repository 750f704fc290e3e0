"""What the cluster's machines have free, our own launches deducted at once. Pure accounting."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from iris_fed.backends.slurm.parse import SlurmJob, SlurmNode
from iris_fed.model.resources import NodeFree, NodeShape, Resources

MAX_FEATURES = 64


@dataclass(frozen=True, slots=True)
class Held:
    """What one attempt takes; `node` '' = Slurm has not said where."""

    node: str
    cpu_millicores: int
    memory_bytes: int
    variant: str
    chips: int


class Machines:
    """Other people's use is what Slurm counts beyond our own jobs. `variant_of` names Slurm's GPU types our way."""

    def __init__(self, variant_of: Callable[[str], str]) -> None:
        self._variant_of = variant_of
        self._shapes: dict[str, NodeShape] = {}
        self._others: dict[str, NodeShape] = {}
        self._held: dict[str, Held] = {}
        self.features: tuple[str, ...] = ()

    def update(self, nodes: Sequence[SlurmNode], jobs: Iterable[SlurmJob], asked: Mapping[str, Held]) -> None:
        """`jobs` are ours that hold machines, `asked` what an attempt of each wants, by the job's name."""
        usable = [node for node in nodes if node.usable]
        ours = _by_node(jobs, asked)
        self._shapes = {
            node.name: NodeShape(node.cpus * 1000, node.memory_bytes, self._variants(node.gpus)) for node in usable
        }
        self._others = {
            node.name: _rest(
                NodeShape(node.used_cpus * 1000, node.used_memory_bytes, self._variants(node.used_gpus)),
                ours.get(node.name),
            )
            for node in usable
        }
        self.features = tuple(sorted({one for node in usable for one in node.features})[:MAX_FEATURES])

    def reserve(self, uid: str, asked: Resources, wanted_node: str) -> bool:
        """Where it fits now, `wanted_node` first; False = nowhere, and nothing is held."""
        free = self.free()
        for node in sorted(free, key=lambda name: (name != wanted_node, _size(free[name]))):
            variant = _fits(free[node], asked)
            if variant is not None:
                self._held[uid] = Held(node, asked.cpu_millicores, asked.memory_bytes, variant, asked.chips)
                return True
        return False

    def hold(self, uid: str, held: Held) -> None:
        self._held[uid] = held

    def release(self, uid: str) -> None:
        self._held.pop(uid, None)

    def free(self) -> dict[str, NodeShape]:
        """By machine; never negative."""
        taken: dict[str, list[Held]] = defaultdict(list)
        for held in self._held.values():
            taken[held.node].append(held)
        return {name: _left(shape, self._others[name], taken[name]) for name, shape in self._shapes.items()}

    def each(self) -> tuple[NodeFree, ...]:
        free = self.free()
        return tuple(
            NodeFree(name, free[name].cpu_millicores, free[name].memory_bytes, free[name].devices, shape)
            for name, shape in self._shapes.items()
        )

    def kinds(self) -> tuple[NodeFree, ...]:
        """One entry for all machines that are equal, with the one of them that has most free."""
        groups: dict[tuple[object, ...], list[NodeFree]] = defaultdict(list)
        for node in self.each():
            assert node.total is not None
            devices = tuple(sorted(node.total.devices.items()))
            groups[node.total.cpu_millicores, node.total.memory_bytes, devices].append(node)
        return tuple(_emptiest(group) for group in groups.values())

    def totals(self) -> dict[str, int]:
        return dict(sum((Counter(shape.devices) for shape in self._shapes.values()), Counter[str]()))

    def amounts(self) -> dict[str, int]:
        free = self.free()
        return {variant: sum(shape.devices.get(variant, 0) for shape in free.values()) for variant in self.totals()}

    def largest(self) -> NodeShape | None:
        """The machine with most chips, then cores, then memory; None = none is known."""
        return max(self._shapes.values(), key=_size, default=None)

    def count(self) -> int:
        return len(self._shapes)

    def _variants(self, gpus: Mapping[str, int]) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for kind, count in gpus.items():
            counts[self._variant_of(kind) or "gpu"] += count
        return dict(counts)


def _size(shape: NodeShape) -> tuple[int, int, int]:
    return sum(shape.devices.values()), shape.cpu_millicores, shape.memory_bytes


def _fits(free: NodeShape, asked: Resources) -> str | None:
    """The variant it would get, '' = it asks for none; None = it does not fit."""
    if asked.cpu_millicores > free.cpu_millicores or asked.memory_bytes > free.memory_bytes:
        return None
    if not asked.chips or asked.device is None:
        return ""
    wanted = [asked.device.variant] if asked.device.variant else sorted(free.devices)
    return next((variant for variant in wanted if free.devices.get(variant, 0) >= asked.chips), None)


def _by_node(jobs: Iterable[SlurmJob], asked: Mapping[str, Held]) -> dict[str, NodeShape]:
    """What our jobs hold, spread evenly where one has several machines."""
    found: dict[str, NodeShape] = {}
    for job in jobs:
        share = max(1, len(job.nodes))
        held = asked.get(job.name)
        for node in job.nodes:
            before = found.get(node, NodeShape(0, 0, {}))
            devices = Counter(before.devices)
            if held is not None and held.chips:
                devices[held.variant] += math.ceil(held.chips / share)
            found[node] = NodeShape(
                before.cpu_millicores + job.cpus * 1000 // share,
                before.memory_bytes + job.memory_bytes // share,
                dict(devices),
            )
    return found


def _rest(used: NodeShape, ours: NodeShape | None) -> NodeShape:
    if ours is None:
        return used
    return NodeShape(
        max(0, used.cpu_millicores - ours.cpu_millicores),
        max(0, used.memory_bytes - ours.memory_bytes),
        {variant: max(0, count - ours.devices.get(variant, 0)) for variant, count in used.devices.items()},
    )


def _left(shape: NodeShape, others: NodeShape, taken: Sequence[Held]) -> NodeShape:
    chips = Counter(others.devices)
    for held in taken:
        chips[held.variant] += held.chips
    return NodeShape(
        max(0, shape.cpu_millicores - others.cpu_millicores - sum(held.cpu_millicores for held in taken)),
        max(0, shape.memory_bytes - others.memory_bytes - sum(held.memory_bytes for held in taken)),
        {variant: max(0, count - chips[variant]) for variant, count in shape.devices.items()},
    )


def _emptiest(group: Sequence[NodeFree]) -> NodeFree:
    best = max(group, key=lambda node: (sum(node.devices.values()), node.cpu_millicores, node.memory_bytes))
    return NodeFree(best.node, best.cpu_millicores, best.memory_bytes, best.devices, best.total, len(group))
