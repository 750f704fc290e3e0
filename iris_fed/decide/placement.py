"""Which waiting task gets which place now: the queue in order against what is free.

A task that does not fit does not block one behind it that does.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iris_fed.decide.routing import nearest_miss
from iris_fed.model.jobs import DemandQueue, QueuedJob
from iris_fed.model.resources import BackendSummary, NodeFree, Resources
from iris_fed.model.spec import JobSpec


@dataclass(frozen=True, slots=True)
class Place:
    """One backend as the placement sees it: its shape, and what is free on each of its nodes."""

    summary: BackendSummary
    free: tuple[NodeFree, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """This task goes to that node of that backend."""

    job_uid: int
    task_index: int
    backend_id: str
    node: str


@dataclass(frozen=True, slots=True)
class Plan:
    """`waiting` says for each demand of which a task found no place, why: demand -> one sentence."""

    placed: tuple[Placed, ...]
    waiting: Mapping[str, str]


def choose_places(queues: Sequence[DemandQueue], places: Sequence[Place], now_ms: int, limit: int) -> Plan:
    """Place at most `limit` tasks, strongest first over all queues. Tasks in back-off are passed by.

    What finds no room for one job finds none for the others of its demand, so their queue is left:
    the cost follows what is placed and the number of demands, not the length of the queue.
    """
    free = [_Free(place.summary, node) for place in places for node in place.free]
    placed: list[Placed] = []
    waiting: dict[str, str] = {}
    for queue, queued in _in_order(queues, waiting):
        spec = queued.job.spec
        fitting = [slot for slot in free if _may_use(spec, slot.summary)]
        for task in queued.tasks:
            if task.not_before_ms > now_ms:
                continue
            slot = _tightest(fitting, spec.resources)
            if slot is None:
                waiting[queue.demand] = _reason(spec, [place.summary for place in places], fitting)
                break
            slot.take(spec.resources)
            placed.append(Placed(queued.job.uid, task.index, slot.summary.backend_id, slot.node))
            if len(placed) >= limit:
                return Plan(tuple(placed), waiting)
    return Plan(tuple(placed), waiting)


def _in_order(queues: Sequence[DemandQueue], left: Mapping[str, str]) -> Iterator[tuple[DemandQueue, QueuedJob]]:
    """Merge the queues by band and submission; those in `left` (looked at each time) are read no further."""
    heads: list[tuple[int, int, int, int, QueuedJob]] = []

    def push(number: int) -> None:
        queued = next(queues[number].jobs, None)
        if queued is not None:
            job = queued.job
            heapq.heappush(heads, (job.band, job.submitted_ms, job.uid, number, queued))

    for number in range(len(queues)):
        push(number)
    while heads:
        *_, number, queued = heapq.heappop(heads)
        yield queues[number], queued
        if queues[number].demand not in left:
            push(number)


class _Free:
    """The ledger of one node while a plan is made."""

    def __init__(self, summary: BackendSummary, node: NodeFree) -> None:
        self.summary = summary
        self.node = node.node
        self.cpu_millicores = node.cpu_millicores
        self.memory_bytes = node.memory_bytes
        self.devices = dict(node.devices)

    def lacks(self, asked: Resources) -> str | None:
        """What is short for one replica, in words."""
        if asked.cpu_millicores > self.cpu_millicores:
            return f"{asked.cpu_millicores / 1000:g} CPUs asked for, {max(0, self.cpu_millicores) / 1000:g} free"
        if asked.memory_bytes > self.memory_bytes:
            return f"{asked.memory_bytes >> 20} MiB of memory asked for, {max(0, self.memory_bytes) >> 20} MiB free"
        if asked.chips and self._variant(asked) is None:
            assert asked.device is not None
            most = (
                self.devices.get(asked.device.variant, 0)
                if asked.device.variant
                else max(self.devices.values(), default=0)
            )
            return f"{asked.chips} x {asked.device.token} asked for, {most} free"
        return None

    def take(self, asked: Resources) -> None:
        self.cpu_millicores -= asked.cpu_millicores
        self.memory_bytes -= asked.memory_bytes
        variant = self._variant(asked)
        if variant is not None:
            self.devices[variant] -= asked.chips

    def _variant(self, asked: Resources) -> str | None:
        if asked.device is None or not asked.chips:
            return None
        wanted = [asked.device.variant] if asked.device.variant else sorted(self.devices)
        return next((variant for variant in wanted if self.devices.get(variant, 0) >= asked.chips), None)


def _may_use(spec: JobSpec, summary: BackendSummary) -> bool:
    if spec.backend_pin not in (None, summary.backend_id):
        return False
    return nearest_miss(spec, summary) is None


def _tightest(slots: Sequence[_Free], asked: Resources) -> _Free | None:
    """The fitting node with the least left over, so that large replicas still find room elsewhere."""
    fitting = [slot for slot in slots if slot.lacks(asked) is None]
    return min(fitting, key=lambda s: (sum(s.devices.values()), s.cpu_millicores, s.memory_bytes), default=None)


def _reason(spec: JobSpec, summaries: Sequence[BackendSummary], fitting: Sequence[_Free]) -> str:
    if fitting:
        return f"waiting for room: {fitting[0].lacks(spec.resources)}"
    misses = [f"{summary.name}: {nearest_miss(spec, summary)}" for summary in summaries]
    return "no backend here can host it now; " + "; ".join(misses or ["none is known"])
