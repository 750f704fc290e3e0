"""Where a job goes, and the words of every refusal."""

from typing import Any

import pytest

from iris_fed.decide.routing import Here, NotYet, Nowhere, Route, ToPeer, choose_route, nearest_miss
from iris_fed.errors import FailedPrecondition, InvalidArgument, IrisFedError
from iris_fed.model.constraints import Constraint, Op
from iris_fed.model.federation import PeerShape
from iris_fed.model.resources import Availability, BackendSummary, Device, DeviceKind, NodeShape, Resources
from iris_fed.model.spec import JobSpec

GIB = 2**30
NODE = NodeShape(8_000, 32 * GIB)


def backend(
    name: str = "local", node: NodeShape | None = NODE, availability: Availability | None = None, **attributes: str
) -> BackendSummary:
    advertised = {key.replace("_", "-"): tuple(value.split(",")) for key, value in attributes.items()}
    return BackendSummary(name, name, "local", attributes=advertised, largest_node=node, availability=availability)


def gpus(free: int | None = 8, chips: int = 8, variant: str = "h100", **attributes: str) -> BackendSummary:
    availability = None if free is None else Availability(1, {variant: free}, {variant: chips})
    node = NodeShape(64_000, 512 * GIB, {variant: chips})
    return backend("gpus", node, availability, device_type="gpu", device_variant=variant, **attributes)


def spec(*constraints: Constraint, chips: int = 0, variant: str = "h100", replicas: int = 1, **asked: Any) -> JobSpec:
    device = Device(DeviceKind.GPU, variant, chips) if chips else None
    return JobSpec(("true",), Resources(device=device, **asked), constraints=constraints, replicas=replicas)


def pin(key: str, value: str) -> Constraint:
    return Constraint(key, Op.EQ, (value,))


def peer(name: str, *backends: BackendSummary, reachable: bool = True) -> PeerShape:
    return PeerShape(name, reachable, backends)


def refusal(route: Route, kind: type[IrisFedError] = FailedPrecondition) -> str:
    assert isinstance(route, Nowhere)
    assert type(route.error) is kind
    return route.error.message


def test_what_this_cluster_can_host_stays_here_though_a_peer_could_too() -> None:
    assert choose_route(spec(chips=1), [gpus(free=0)], [peer("lab", gpus())]) == Here()
    assert choose_route(spec(), [backend()], []) == Here()


def test_a_pin_goes_before_the_place_here() -> None:
    assert choose_route(spec(pin("cluster", "lab")), [backend()], [peer("lab", backend())]) == ToPeer("lab")


def test_what_this_cluster_cannot_host_goes_to_a_peer_that_can() -> None:
    peers = [peer("cpu-lab", backend()), peer("gpu-lab", backend(), gpus())]
    assert choose_route(spec(chips=8), [backend()], peers) == ToPeer("gpu-lab")


def test_every_constraint_must_be_met_by_one_backend_alone() -> None:
    wanted = spec(pin("region", "eu"), chips=1)
    split = peer("lab", gpus(region="us"), backend(region="eu"))
    assert "region = eu is not satisfied: it offers region us" in refusal(choose_route(wanted, [], [split]))
    assert choose_route(wanted, [], [split, peer("whole", gpus(region="us,eu"))]) == ToPeer("whole")


def test_a_reachable_peer_is_preferred_then_one_with_room_then_one_that_meets_wishes_then_the_name() -> None:
    wish = Constraint("region", Op.EQ, ("eu",), preferred=True)
    wanted = spec(wish, chips=4, replicas=2)
    down = peer("a-down", gpus(region="eu"), reachable=False)
    full = peer("b-full", gpus(free=7, region="eu"))
    room = peer("c-room", gpus(region="us"))
    wished = peer("d-wish", gpus(region="eu"))
    assert choose_route(wanted, [], [down]) == ToPeer("a-down")
    assert choose_route(wanted, [], [down, full]) == ToPeer("b-full")
    assert choose_route(wanted, [], [down, full, room]) == ToPeer("c-room")
    assert choose_route(wanted, [], [wished, down, full, room]) == ToPeer("d-wish")
    twin = peer("e-twin", gpus(region="eu"))
    assert choose_route(wanted, [], [twin, wished]) == choose_route(wanted, [], [wished, twin]) == ToPeer("e-twin")


def test_a_peer_without_a_metric_is_not_thought_full() -> None:
    assert choose_route(spec(chips=4), [], [peer("z-full", gpus(free=3)), peer("a-mute", gpus(free=None))]) == ToPeer(
        "a-mute"
    )


def test_any_gpu_prefers_the_peer_that_has_some_free() -> None:
    wanted = spec(chips=2, variant="")
    assert choose_route(wanted, [], [peer("a-free", gpus(free=4)), peer("z-full", gpus(free=1))]) == ToPeer("a-free")


@pytest.mark.parametrize(
    ("wanted", "place", "miss"),
    [
        (spec(), backend(), None),
        (spec(pin("region", "eu")), backend(), "region = eu is not satisfied: it offers no region"),
        (spec(chips=1), gpus(variant="a100"), "device-variant = h100 is not satisfied: it offers device-variant a100"),
        (spec(chips=1), backend(), "device-type = gpu is not satisfied: it offers no device-type"),
        (spec(cpu_millicores=8_000, memory_bytes=32 * GIB), backend(), None),
        (spec(cpu_millicores=8_500), backend(), "one replica asks for 8.5 CPUs, its largest node has 8"),
        (
            spec(memory_bytes=33 * GIB),
            backend(),
            "one replica asks for 33 GiB of memory, its largest node has 32 GiB",
        ),
        (spec(chips=9), gpus(), "one replica asks for 9 x h100, its largest node has 8"),
        (spec(chips=9, variant=""), gpus(), "one replica asks for 9 x gpu, its largest node has 8"),
        (spec(chips=8, variant=""), gpus(), None),
        (spec(cpu_millicores=10**9), backend(node=None), None),
        (
            spec(chips=9),
            backend(node=None, availability=Availability(1, {}, {"h100": 8}), device_type="gpu", device_variant="h100"),
            "one replica asks for 9 x h100, its largest node has 8",
        ),
        (spec(chips=99), backend(node=None, device_type="gpu", device_variant="h100"), None),
        (spec(Constraint("region", Op.EQ, ("eu",), preferred=True)), backend(), None),
    ],
)
def test_the_nearest_miss_of_a_backend_names_what_it_lacks(
    wanted: JobSpec, place: BackendSummary, miss: str | None
) -> None:
    assert nearest_miss(wanted, place) == miss


def test_a_refusal_names_what_every_place_lacks() -> None:
    peers = [peer("lab", gpus(variant="a100")), peer("bare"), PeerShape("mute", False, None)]
    route = choose_route(spec(chips=1), [backend("cpu")], peers, is_root=False)
    assert refusal(route) == (
        "no cluster can host this job; cpu: device-type = gpu is not satisfied: it offers no device-type; "
        "peer lab: device-variant = h100 is not satisfied: it offers device-variant a100; "
        "peer bare: it has no backend; peer mute: not heard of yet"
    )
    assert refusal(choose_route(spec(), [], [])) == "no cluster can host this job; no backend is known"


def test_peers_never_heard_of_are_worth_a_wait_only_if_nobody_else_can() -> None:
    unheard = PeerShape("mute", False, None)
    assert choose_route(spec(chips=1), [backend()], [unheard]) == NotYet(("mute",))
    assert choose_route(spec(chips=1), [backend()], [unheard, peer("lab", gpus())]) == ToPeer("lab")
    assert choose_route(spec(), [backend()], [unheard]) == Here()


def test_a_pin_to_a_peer_that_was_never_heard_of_waits_for_it() -> None:
    peers = [PeerShape("mute", False, None), peer("lab", gpus())]
    assert choose_route(spec(pin("cluster", "mute"), chips=1), [], peers) == NotYet(("mute",))


def test_a_pin_to_a_peer_that_cannot_host_it_is_refused_for_that_reason() -> None:
    route = choose_route(
        spec(pin("cluster", "lab"), chips=9), [gpus(chips=16)], [peer("lab", gpus()), peer("big", gpus())]
    )
    assert refusal(route) == (
        "no cluster can host this job; peer lab: one replica asks for 9 x h100, its largest node has 8"
    )


def test_a_pin_to_a_cluster_that_is_no_peer_is_refused_with_those_that_are() -> None:
    route = choose_route(spec(pin("cluster", "moon")), [backend()], [peer("lab"), peer("big")])
    assert refusal(route, InvalidArgument) == (
        "constraints: cluster 'moon' is no configured peer (configured: big, lab)"
    )
    route = choose_route(spec(pin("cluster", "moon")), [backend()], [])
    assert refusal(route, InvalidArgument).endswith("(configured: none)")


def test_a_child_job_never_goes_to_a_peer() -> None:
    lab = peer("lab", gpus())
    assert "--target-cluster lab" in refusal(choose_route(spec(chips=1), [], [lab], is_root=False), InvalidArgument)
    pinned = choose_route(spec(pin("cluster", "lab")), [], [lab], is_root=False)
    assert refusal(pinned, InvalidArgument) == "constraints: only a root job can be pinned to a cluster"
    assert choose_route(spec(), [backend()], [lab], is_root=False) == Here()


def test_a_backend_pin_never_leaves_the_cluster() -> None:
    lab = peer("lab", gpus())
    assert choose_route(spec(pin("backend", "two")), [backend("one"), backend("two")], [lab]) == Here()
    route = choose_route(spec(pin("backend", "three")), [backend("one")], [lab])
    assert refusal(route, InvalidArgument) == "constraints: backend 'three' is not configured on this cluster"
    route = choose_route(spec(pin("backend", "one"), chips=1), [backend("one"), gpus()], [lab])
    assert refusal(route) == (
        "backend one cannot host this job: device-type = gpu is not satisfied: it offers no device-type"
    )
