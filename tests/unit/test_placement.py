"""Which waiting task gets which place now."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iris_fed.decide.newjob import new_job
from iris_fed.decide.placement import Patience, Place, Plan, choose_places
from iris_fed.model.constraints import Constraint, Op
from iris_fed.model.jobs import DemandQueue, Job, QueuedJob, Task
from iris_fed.model.resources import BackendSummary, Device, DeviceKind, NodeFree, NodeShape, Resources
from iris_fed.model.spec import JobSpec, Submission
from iris_fed.model.states import Band

GIB = 2**30

NEVER_MS = 10**15


def at_most(limit: int) -> Patience:
    return Patience(limit, NEVER_MS)


def place(name: str, *nodes: NodeFree, largest: NodeShape | None = None, **attributes: str) -> Place:
    shape = largest or NodeShape(64_000, 512 * GIB, {"h100": 8, "a100": 8})
    advertised = {key.replace("_", "-"): (value,) for key, value in attributes.items()}
    return Place(BackendSummary(name, name, "local", attributes=advertised, largest_node=shape), nodes)


def node(name: str, cpus: int = 8, gib: int = 64, **devices: int) -> NodeFree:
    return NodeFree(name, cpus * 1000, gib * GIB, devices)


def asks(cpus: int = 1, gib: int = 1, gpus: int = 0, variant: str = "h100") -> Resources:
    device = Device(DeviceKind.GPU, variant, gpus) if gpus else None
    return Resources(cpus * 1000, gib * GIB, 0, device)


def job(
    uid: int, resources: Resources, replicas: int = 1, band: Band = Band.BATCH, at: int = 0, *more: Constraint
) -> Job:
    spec = JobSpec(("true",), resources, constraints=more, replicas=replicas)
    return replace(new_job(Submission("x", spec, band=band), f"/a/{uid}", "a", "a", at), uid=uid)


def queues(jobs: Sequence[Job], not_before: Mapping[tuple[int, int], int] | None = None) -> list[DemandQueue]:
    """As the store gives them: one a demand, in order of band, submission and uid."""

    def tasks(one: Job) -> Iterator[Task]:
        for index in range(one.task_count):
            at = (not_before or {}).get((one.uid, index), 0)
            yield Task(job_uid=one.uid, index=index, submitted_ms=0, not_before_ms=at)

    by_demand: dict[str, list[QueuedJob]] = {}
    for one in sorted(jobs, key=lambda one: (one.band, one.submitted_ms, one.uid)):
        by_demand.setdefault(one.demand, []).append(QueuedJob(one, tasks(one)))
    return [DemandQueue(demand, iter(waiting)) for demand, waiting in sorted(by_demand.items())]


def placed(plan: Plan) -> list[tuple[int, int, str]]:
    return [(one.job_uid, one.task_index, one.node) for one in plan.placed]


def test_the_strongest_band_goes_first_and_within_it_the_oldest() -> None:
    jobs = [
        job(1, asks(), band=Band.BATCH, at=1),
        job(2, asks(), band=Band.INTERACTIVE, at=9),
        job(3, asks(2), band=Band.INTERACTIVE, at=3),
        job(4, asks(), band=Band.SYSTEM, at=99),
        job(5, asks(2), band=Band.PRODUCTION, at=50),
    ]
    plan = choose_places(queues(jobs), [place("p", node("n", cpus=100))], 0, at_most(10))
    assert [uid for uid, _, _ in placed(plan)] == [4, 5, 3, 2, 1]


def test_what_does_not_fit_blocks_nothing_that_does() -> None:
    jobs = [job(1, asks(cpus=32), band=Band.SYSTEM), job(2, asks(cpus=2)), job(3, asks(cpus=64), at=1), job(4, asks())]
    plan = choose_places(queues(jobs), [place("p", node("n", cpus=4))], 0, at_most(10))
    assert placed(plan) == [(2, 0, "n"), (4, 0, "n")]
    assert plan.waiting[jobs[0].demand] == "waiting for room: 32 CPUs asked for, 4 free"
    assert set(plan.waiting) == {jobs[0].demand, jobs[2].demand}


def test_a_job_takes_what_room_there_is_and_the_rest_of_it_waits() -> None:
    jobs = [job(1, asks(gpus=4), replicas=3)]
    plan = choose_places(
        queues(jobs),
        [place("p", node("n", h100=8), device_type="gpu", device_variant="h100")],
        0,
        at_most(10),
    )
    assert placed(plan) == [(1, 0, "n"), (1, 1, "n")]
    assert plan.waiting[jobs[0].demand] == "waiting for room: 4 x h100 asked for, 0 free"


def test_a_task_in_back_off_is_passed_by_and_blocks_none_behind_it() -> None:
    jobs = [job(1, asks(), replicas=2), job(2, asks(), at=1)]
    plan = choose_places(queues(jobs, {(1, 0): 500}), [place("p", node("n"))], 499, at_most(10))
    assert placed(plan) == [(1, 1, "n"), (2, 0, "n")]
    assert not plan.waiting
    assert (1, 0, "n") in placed(choose_places(queues(jobs, {(1, 0): 500}), [place("p", node("n"))], 500, at_most(10)))


def test_no_more_is_placed_than_the_limit() -> None:
    plan = choose_places(queues([job(1, asks(), replicas=9)]), [place("p", node("n", cpus=100))], 0, at_most(4))
    assert [index for _, index, _ in placed(plan)] == [0, 1, 2, 3]


def test_small_work_goes_where_the_least_is_left_and_keeps_off_accelerators() -> None:
    places = [place("p", node("gpus", h100=8), node("large", cpus=64), node("small", cpus=2))]
    assert placed(choose_places(queues([job(1, asks())]), places, 0, at_most(1))) == [(1, 0, "small")]
    only_gpus = [place("p", node("gpus", h100=8))]
    assert placed(choose_places(queues([job(1, asks())]), only_gpus, 0, at_most(1))) == [(1, 0, "gpus")]


def test_a_pinned_job_goes_to_its_backend_or_waits() -> None:
    pin = Constraint("backend", Op.EQ, ("q",))
    places = [place("p", node("n1", cpus=64)), place("q", node("n2", cpus=1))]
    jobs = [job(1, asks(), 2, Band.BATCH, 0, pin)]
    plan = choose_places(queues(jobs), places, 0, at_most(9))
    assert placed(plan) == [(1, 0, "n2")]
    assert plan.waiting[jobs[0].demand] == "waiting for room: 1 CPUs asked for, 0 free"


def test_a_constraint_keeps_a_job_off_places_that_do_not_meet_it_and_says_so() -> None:
    region = Constraint("region", Op.EQ, ("eu",))
    places = [place("p", node("n1"), region="us"), place("q", node("n2"))]
    jobs = [job(1, asks(), 1, Band.BATCH, 0, region)]
    assert placed(choose_places(queues(jobs), [*places, place("r", node("n3"), region="eu")], 0, at_most(9))) == [
        (1, 0, "n3")
    ]
    assert choose_places(queues(jobs), places, 0, at_most(9)).waiting[jobs[0].demand] == (
        "no backend here can host it now; p: region = eu is not satisfied: it offers region us; "
        "q: region = eu is not satisfied: it offers no region"
    )
    assert choose_places(queues(jobs), [], 0, at_most(9)).waiting[jobs[0].demand].endswith("none is known")


def test_any_gpu_means_one_kind_for_all_chips_of_a_replica() -> None:
    jobs = [job(1, asks(gpus=4, variant=""), replicas=3)]
    plan = choose_places(queues(jobs), [place("p", node("n", h100=5, a100=5), device_type="gpu")], 0, at_most(9))
    assert len(plan.placed) == 2
    assert plan.waiting[jobs[0].demand] == "waiting for room: 4 x gpu asked for, 1 free"


def test_memory_is_counted() -> None:
    jobs = [job(1, asks(gib=40), replicas=2)]
    plan = choose_places(queues(jobs), [place("p", node("n", gib=64))], 0, at_most(9))
    assert len(plan.placed) == 1
    assert plan.waiting[jobs[0].demand] == "waiting for room: 40960 MiB of memory asked for, 24576 MiB free"


RESOURCES = st.builds(
    asks,
    st.integers(0, 6),
    st.integers(0, 6),
    st.integers(0, 4),
    st.sampled_from(["h100", "a100", ""]),
)
JOBS = st.lists(st.tuples(RESOURCES, st.integers(1, 4), st.sampled_from(Band), st.integers(0, 3)), max_size=8).map(
    lambda rows: [job(uid, *row) for uid, row in enumerate(rows, 1)]
)
NODES = st.lists(
    st.tuples(st.integers(-1, 8), st.integers(0, 8), st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=4
).map(lambda rows: [node(f"n{i}", c, m, h100=h, a100=a) for i, (c, m, h, a) in enumerate(rows)])


ACCELERATED = BackendSummary(
    "p", "p", "local", attributes={"device-type": ("gpu",), "device-variant": ("h100", "a100")}
)


@settings(max_examples=80, deadline=None)
@given(JOBS, NODES, st.integers(1, 12))
def test_no_node_is_given_more_than_it_has_and_no_fitting_task_is_left(
    jobs: list[Job], nodes: list[NodeFree], limit: int
) -> None:
    places = [Place(ACCELERATED, tuple(nodes))]
    plan = choose_places(queues(jobs), places, 0, at_most(limit))
    by_uid = {one.uid: one.spec.resources for one in jobs}
    assert len(plan.placed) <= limit
    assert len({(one.job_uid, one.task_index) for one in plan.placed}) == len(plan.placed)
    left = {one.node: [one.cpu_millicores, one.memory_bytes, sum(one.devices.values())] for one in nodes}
    exact = {one.node: dict(one.devices) for one in nodes}
    for one in plan.placed:
        asked = by_uid[one.job_uid]
        left[one.node][0] -= asked.cpu_millicores
        left[one.node][1] -= asked.memory_bytes
        left[one.node][2] -= asked.chips
        if asked.device and asked.device.variant:
            exact[one.node][asked.device.variant] -= asked.chips
    used = {one.node for one in plan.placed}
    assert all(amount >= 0 for name in used for amount in left[name])
    assert all(amount >= 0 for devices in exact.values() for amount in devices.values())
    if len(plan.placed) < limit:
        waiting = [one for one in jobs if sum(p.job_uid == one.uid for p in plan.placed) < one.task_count]
        assert {one.demand for one in waiting} == set(plan.waiting)
        for asked in (one.spec.resources for one in waiting):
            for name, (cpu, memory, _) in left.items():
                assert cpu < asked.cpu_millicores or memory < asked.memory_bytes or asked.chips, name


@settings(max_examples=40, deadline=None)
@given(JOBS, NODES, JOBS)
def test_weaker_work_never_takes_a_place_from_stronger(
    jobs: list[Job], nodes: list[NodeFree], weaker: list[Job]
) -> None:
    places = [Place(ACCELERATED, tuple(nodes))]
    strong = [replace(one, band=Band.SYSTEM) for one in jobs]
    weak = [replace(one, uid=one.uid + 100, band=Band.BATCH) for one in weaker]
    alone = choose_places(queues(strong), places, 0, at_most(1_000))
    together = choose_places(queues([*strong, *weak]), places, 0, at_most(1_000))
    assert [one for one in together.placed if one.job_uid <= 100] == list(alone.placed)


@pytest.mark.parametrize("size", [1, 5])
def test_a_demand_without_room_is_read_no_further(size: int) -> None:
    read = []

    def jobs() -> Iterator[QueuedJob]:
        for uid in range(1, 1_000):
            read.append(uid)
            one = job(uid, asks(cpus=4))
            yield QueuedJob(one, iter([Task(job_uid=uid, index=0, submitted_ms=0)]))

    choose_places(
        [DemandQueue(job(1, asks(cpus=4)).demand, jobs())],
        [place("p", node("n", cpus=4 * size))],
        0,
        at_most(99),
    )
    assert read == list(range(1, size + 2))


# --- gangs ---


def gang(uid: int, resources: Resources, replicas: int, at: int = 0) -> Job:
    one = job(uid, resources, replicas, at=at)
    spec = replace(one.spec, coscheduling_group_by="")
    return replace(one, spec=spec, demand=spec.demand)


def test_a_gang_is_placed_whole_on_one_backend_or_not_at_all() -> None:
    three = gang(1, asks(cpus=4), 3)
    split = [place("p", node("p1"), node("p2", cpus=3)), place("q", node("q1", cpus=4))]
    plan = choose_places(queues([three]), split, 0, at_most(10))
    assert plan.placed == ()
    assert plan.waiting[three.demand] == "waiting for room for all 3 replicas at once; 2 would fit now"
    whole = [*split, place("r", node("r1", cpus=4), node("r2"))]
    plan = choose_places(queues([three]), whole, 0, at_most(10))
    assert {one.backend_id for one in plan.placed} == {"r"}
    assert sorted(one.task_index for one in plan.placed) == [0, 1, 2]


def test_a_gang_that_does_not_fit_takes_nothing_from_those_behind_it() -> None:
    jobs = [gang(1, asks(cpus=4), 3), job(2, asks(cpus=4), 2, at=1)]
    plan = choose_places(queues(jobs), [place("p", node("n", cpus=8))], 0, at_most(10))
    assert placed(plan) == [(2, 0, "n"), (2, 1, "n")]


def test_what_a_gang_takes_is_gone_for_those_behind_it() -> None:
    jobs = [gang(1, asks(cpus=4), 2), job(2, asks(cpus=4), at=1)]
    plan = choose_places(queues(jobs), [place("p", node("n", cpus=8))], 0, at_most(10))
    assert [uid for uid, _, _ in placed(plan)] == [1, 1]
    assert plan.waiting[jobs[1].demand] == "waiting for room: 4 CPUs asked for, 0 free"


def test_a_gang_waits_for_the_one_of_it_that_backs_off() -> None:
    plan = choose_places(queues([gang(1, asks(), 2)], {(1, 1): 500}), [place("p", node("n"))], 499, at_most(10))
    assert plan.placed == ()


# --- what is held for those who have waited long ---


def test_what_is_freed_is_held_for_a_job_that_has_waited_long_enough() -> None:
    jobs = [job(1, asks(cpus=8), band=Band.SYSTEM, at=100), job(2, asks(), at=200)]
    places = [place("p", node("n1", cpus=2), node("n2", cpus=6))]
    soon = choose_places(queues(jobs), places, 1_099, Patience(10, 1_000))
    assert [uid for uid, _, _ in placed(soon)] == [2]
    late = choose_places(queues(jobs), places, 1_100, Patience(10, 1_000))
    assert placed(late) == [(2, 0, "n1")]
    assert late.waiting[jobs[0].demand].endswith("what is freed is held for it")
    only = choose_places(queues(jobs), [place("p", node("n2", cpus=6))], 1_100, Patience(10, 1_000))
    assert only.placed == ()
    assert only.waiting[jobs[1].demand] == "waiting: what is free is held for a stronger job that has waited long"


def test_nothing_is_held_for_a_job_that_no_place_here_could_host() -> None:
    jobs = [job(1, asks(cpus=99), band=Band.SYSTEM), job(2, asks())]
    plan = choose_places(queues(jobs), [place("p", node("n", cpus=4))], 10_000, Patience(10, 1_000))
    assert placed(plan) == [(2, 0, "n")]


def engine(room: int | None, closed: str = "", machines: int = 2, gpus: int = 8) -> Place:
    """An engine with a queue of its own: equal machines, all of them busy."""
    total = NodeShape(64_000, 512 * GIB, {"h100": gpus})
    busy = NodeFree("", 0, 0, {"h100": 0}, total, machines)
    return replace(
        place("slurm", busy, largest=total, device_type="gpu", device_variant="h100"), queue_room=room, closed=closed
    )


def test_an_engine_with_a_queue_takes_what_is_not_free_as_far_as_its_queue_has_room() -> None:
    plan = choose_places(queues([job(1, asks(gpus=8), replicas=5)]), [engine(3)], 0, at_most(10))
    assert [one.task_index for one in plan.placed] == [0, 1, 2]
    (reason,) = plan.waiting.values()
    assert "as many jobs as may wait in the queue of slurm (max_pending)" in reason


def test_without_a_queue_the_same_machines_take_nothing() -> None:
    assert not choose_places(queues([job(1, asks(gpus=8))]), [engine(None)], 0, at_most(10)).placed


def test_what_no_machine_of_the_engine_could_run_is_not_put_into_its_queue() -> None:
    plan = choose_places(queues([job(1, asks(gpus=9))]), [engine(3)], 0, at_most(10))
    assert not plan.placed
    assert "9 x h100, its largest node has 8" in next(iter(plan.waiting.values()))


def test_a_place_where_one_need_not_wait_is_better_than_a_queue() -> None:
    free = place("here", node("n1", h100=8), device_type="gpu", device_variant="h100")
    plan = choose_places(queues([job(1, asks(gpus=8), replicas=2)]), [engine(3), free], 0, at_most(10))
    assert [one.backend_id for one in plan.placed] == ["here", "slurm"]


def test_a_gang_takes_one_place_in_the_queue_and_only_if_the_machines_could_run_it_at_once() -> None:
    fits, too_many = gang(1, asks(gpus=4), replicas=4), gang(2, asks(gpus=8), replicas=3, at=1)
    plan = choose_places(queues([fits, too_many]), [engine(1)], 0, at_most(10))
    assert [one.job_uid for one in plan.placed] == [1, 1, 1, 1]
    reason = next(iter(plan.waiting.values()))
    assert "as many jobs as may wait" in reason
    plan = choose_places(queues([too_many]), [engine(1)], 0, at_most(10))
    assert "of 3 replicas that start at once 2 fit" in next(iter(plan.waiting.values()))


def test_an_engine_that_cannot_be_asked_takes_nothing_and_the_job_says_why() -> None:
    for room in (5, None):
        for one in (job(1, asks()), gang(1, asks(), replicas=2)):
            plan = choose_places(queues([one]), [engine(room, "Slurm cannot be asked: no answer")], 0, at_most(10))
            assert not plan.placed
            assert "Slurm cannot be asked: no answer" in next(iter(plan.waiting.values()))
