"""Which waiting task gets which place now: the queue in order against what is free.

A task that does not fit does not block one behind it that does.
"""

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iris_fed.decide.routing import nearest_miss, too_small
from iris_fed.model.constraints import satisfies
from iris_fed.model.jobs import DemandQueue, Job, QueuedJob
from iris_fed.model.resources import BackendSummary, NodeFree, Resources
from iris_fed.model.spec import JobSpec


@dataclass(frozen=True, slots=True)
class Place:
    """One backend as the placement sees it: its shape, and what is free on each of its nodes. `queue_room` more
    jobs (a gang is one) may wait in a queue of its own for what is not free, None = it has none. `closed` says why
    it takes nothing now, '' = it does."""

    summary: BackendSummary
    free: tuple[NodeFree, ...]
    queue_room: int | None = None
    closed: str = ""


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


@dataclass(frozen=True, slots=True)
class Patience:
    """`limit` tasks at most are placed at once (a gang counts as one). After `hold_after_ms` in the
    queue the freed capacity of the places that could host a job is held for it."""

    limit: int
    hold_after_ms: int


def choose_places(queues: Sequence[DemandQueue], places: Sequence[Place], now_ms: int, patience: Patience) -> Plan:
    """Place the waiting tasks, strongest first over all queues. Tasks in back-off are passed by.

    What finds no room for one job finds none for the others of its demand, so their queue is left:
    the cost follows what is placed and the number of demands, not the length of the queue.
    """
    ledger = _Ledger([node for place in places for node in _nodes_of(place)])
    placed: list[Placed] = []
    waiting: dict[str, str] = {}
    for queue, queued in _in_order(queues, waiting):
        spec = queued.job.spec
        fitting = ledger.usable_by(spec)
        room = patience.limit - len(placed)
        found = _place_gang(queued, fitting, now_ms) if spec.is_gang else _place_each(queued, fitting, now_ms, room)
        placed.extend(found.placed)
        if found.short:
            waiting[queue.demand] = found.short
            waited_long = now_ms - queued.job.submitted_ms >= patience.hold_after_ms
            if waited_long and (not spec.is_gang or _gang_could_fit(queued.job, fitting)):
                ledger.hold(fitting, spec)
                waiting[queue.demand] += "; what is freed is held for it"
        elif found.short is not None:
            waiting[queue.demand] = _unfit(spec, [place.summary for place in places])
        if len(placed) >= patience.limit:
            break
    return Plan(tuple(placed), waiting)


@dataclass(frozen=True, slots=True)
class _Found:
    """`short` says what is lacking for the rest; '' = nowhere it could ever run now, None = nothing."""

    placed: tuple[Placed, ...]
    short: str | None


def _place_each(queued: QueuedJob, fitting: "Sequence[_Free]", now_ms: int, limit: int) -> _Found:
    spec = queued.job.spec
    placed: list[Placed] = []
    for task in queued.tasks:
        if task.not_before_ms > now_ms:
            continue
        slot = _tightest(fitting, spec)
        if slot is None:
            return _Found(tuple(placed), _why_not(fitting, spec))
        slot.take(spec.resources)
        placed.append(Placed(queued.job.uid, task.index, slot.summary.backend_id, slot.node))
        if len(placed) >= limit:
            break
    return _Found(tuple(placed), None)


def _why_not(fitting: "Sequence[_Free]", spec: JobSpec) -> str:
    """What the task waits for; "" = nothing here could ever host it."""
    if not fitting:
        return ""
    first = fitting[0]
    return first.gate.refusal() or f"waiting for room: {first.lacks(spec.resources)}"


def _place_gang(queued: QueuedJob, fitting: "Sequence[_Free]", now_ms: int) -> _Found:
    """All on one backend or none at all."""
    spec, tasks = queued.job.spec, list(queued.tasks)
    if any(task.not_before_ms > now_ms for task in tasks):
        return _Found((), None)
    best = 0
    short = ""
    for backend in sorted({slot.summary.backend_id for slot in fitting}):
        own = [slot for slot in fitting if slot.summary.backend_id == backend]
        if short := own[0].gate.refusal():
            continue
        if own[0].gate.queues:
            if short := _short_of_machines(spec, own, len(tasks)):
                continue
            own[0].gate.pass_one()
            node = own[0].node
            return _Found(tuple(Placed(queued.job.uid, task.index, backend, node) for task in tasks), None)
        slots = [slot.copy() for slot in own]
        placed: list[Placed] = []
        while len(placed) < len(tasks) and (slot := _tightest(slots, spec)) is not None:
            slot.take(spec.resources)
            placed.append(Placed(queued.job.uid, tasks[len(placed)].index, backend, slot.node))
        if len(placed) == len(tasks):
            for slot in fitting:
                slot.take_over(slots)
            return _Found(tuple(placed), None)
        best = max(best, len(placed))
    if fitting and not short:
        short = f"waiting for room for all {len(tasks)} replicas at once; {best} would fit now"
    return _Found((), short)


def _short_of_machines(spec: JobSpec, own: "Sequence[_Free]", count: int) -> str:
    """'' = all would run at once if nothing else did."""
    most = sum(node.replicas_at_most(spec.resources) for node in own)
    if most >= count:
        return ""
    return f"waiting for machines: of {count} replicas that start at once {most:g} fit on those that are up"


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


class _Ledger:
    """All nodes while a plan is made."""

    def __init__(self, nodes: "list[_Free]") -> None:
        self._nodes = nodes

    def usable_by(self, spec: JobSpec) -> "list[_Free]":
        """Nodes that may host the job, those held for a stronger one left out."""
        return [node for node in self._nodes if not node.held and node.could_host(spec)]

    def hold(self, fitting: "Sequence[_Free]", spec: JobSpec) -> None:
        """Keep weaker jobs off the node that is nearest to having room; for a gang, off all of them."""
        if spec.is_gang:
            for node in fitting:
                node.held = True
        elif fitting:
            max(fitting, key=lambda node: node.nearness(spec.resources)).held = True


class _Gate:
    """The way into one backend while a plan is made."""

    def __init__(self, place: Place) -> None:
        self._room = place.queue_room
        self._closed = place.closed
        self._name = place.summary.name

    @property
    def queues(self) -> bool:
        return self._room is not None

    def refusal(self) -> str:
        """Why nothing goes in now, '' = it does."""
        if not self._closed and self._room == 0:
            return f"as many jobs as may wait in the queue of {self._name} (max_pending) do so already"
        return self._closed

    def pass_one(self) -> None:
        if self._room:
            self._room -= 1


def _nodes_of(place: Place) -> "list[_Free]":
    gate = _Gate(place)
    return [_Free(place.summary, node, gate) for node in place.free]


class _Free:
    """The ledger of one node while a plan is made."""

    def __init__(self, summary: BackendSummary, node: NodeFree, gate: _Gate) -> None:
        self.gate = gate
        self.count = node.count
        self.summary = summary
        self.node = node.node
        self.cpu_millicores = node.cpu_millicores
        self.memory_bytes = node.memory_bytes
        self.devices = dict(node.devices)
        self.total = node.total
        self.held = False

    def could_host(self, spec: JobSpec) -> bool:
        """Whether one replica would run here if nothing else did."""
        return _may_use(spec, self.summary) and (self.total is None or too_small(spec, self.total) is None)

    def copy(self) -> "_Free":
        """To try something out."""
        node = NodeFree(self.node, self.cpu_millicores, self.memory_bytes, dict(self.devices), self.total)
        return _Free(self.summary, node, self.gate)

    def take_over(self, tried: "Sequence[_Free]") -> None:
        """What was tried out on a copy of this node counts."""
        for other in tried:
            if (other.summary.backend_id, other.node) == (self.summary.backend_id, self.node):
                self.cpu_millicores, self.memory_bytes = other.cpu_millicores, other.memory_bytes
                self.devices = other.devices

    def nearness(self, asked: Resources) -> float:
        """How much of what is asked for is free here: the least share of any kind, at most 1."""
        shares = [1.0]
        if asked.cpu_millicores:
            shares.append(self.cpu_millicores / asked.cpu_millicores)
        if asked.memory_bytes:
            shares.append(self.memory_bytes / asked.memory_bytes)
        if asked.device is not None and asked.chips:
            token = asked.device.variant
            most = self.devices.get(token, 0) if token else max(self.devices.values(), default=0)
            shares.append(most / asked.chips)
        return min(shares)

    def replicas_at_most(self, asked: Resources) -> float:
        """How many would run here if nothing else did."""
        if self.total is None:
            return math.inf
        whole = [math.inf]
        if asked.cpu_millicores:
            whole.append(self.total.cpu_millicores // asked.cpu_millicores)
        if asked.memory_bytes:
            whole.append(self.total.memory_bytes // asked.memory_bytes)
        if asked.device is not None and asked.chips:
            devices, token = self.total.devices, asked.device.variant
            counts = [devices.get(token, 0)] if token else list(devices.values())
            whole.append(sum(count // asked.chips for count in counts))
        return min(whole) * self.count

    def lacks(self, asked: Resources) -> str | None:
        """What is short for one replica, in words. A queue takes what the machine could run one day."""
        if self.gate.queues or self.gate.refusal():
            return self.gate.refusal() or None
        return self.lacks_now(asked)

    def lacks_now(self, asked: Resources) -> str | None:
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
        self.gate.pass_one()
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


def _gang_could_fit(job: Job, fitting: "Sequence[_Free]") -> bool:
    """Whether some backend would have room for all at once if nothing else ran: else nothing is held
    for it, since it would be held for ever."""
    room: dict[str, float] = {}
    for node in fitting:
        backend_id = node.summary.backend_id
        room[backend_id] = room.get(backend_id, 0) + node.replicas_at_most(job.spec.resources)
    return any(most >= job.queued_tasks for most in room.values())


def _tightest(slots: Sequence[_Free], spec: JobSpec) -> _Free | None:
    """The fitting node that meets most soft constraints and, of those, one where it need not wait; of these
    the one that has the least left over, so that large replicas still find room elsewhere."""

    def rank(slot: _Free) -> tuple[int, bool, int, int, int]:
        soft = sum(satisfies(c, slot.summary.attributes) for c in spec.constraints if c.preferred)
        waits = slot.lacks_now(spec.resources) is not None
        return -soft, waits, sum(slot.devices.values()), slot.cpu_millicores, slot.memory_bytes

    return min((slot for slot in slots if slot.lacks(spec.resources) is None), key=rank, default=None)


def _unfit(spec: JobSpec, summaries: Sequence[BackendSummary]) -> str:
    misses = [f"{summary.name}: {miss}" for summary in summaries if (miss := nearest_miss(spec, summary))]
    if not misses and summaries:
        return "waiting: what is free is held for a stronger job that has waited long"
    return "no backend here can host it now; " + "; ".join(misses or ["none is known"])
