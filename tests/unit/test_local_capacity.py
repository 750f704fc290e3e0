"""Who holds how much of a machine."""

from hypothesis import given
from hypothesis import strategies as st

from iris_fed.backends.posix.capacity import Allotment, Ledger, lacking
from iris_fed.model.resources import Device, DeviceKind, NodeShape, Resources

SHAPE = NodeShape(4000, 1000, {"h100": 4, "a100": 2})


def gpu(variant: str, count: int) -> Resources:
    return Resources(device=Device(DeviceKind.GPU, variant, count))


def test_devices_are_counted_through_the_variants() -> None:
    ledger = Ledger(SHAPE)
    assert ledger.reserve("a", gpu("a100", 2)) == Allotment(variant="a100", devices=(4, 5))
    assert ledger.reserve("b", gpu("h100", 1)) == Allotment(variant="h100", devices=(0,))


def test_any_device_means_the_first_variant_with_enough() -> None:
    ledger = Ledger(SHAPE)
    ledger.reserve("a", gpu("h100", 3))
    assert ledger.reserve("b", gpu("", 2)) == Allotment(variant="a100", devices=(4, 5))
    assert ledger.reserve("c", gpu("", 2)) is None


def test_a_device_request_without_a_count_means_one() -> None:
    assert Ledger(SHAPE).reserve("a", gpu("h100", 0)) == Allotment(variant="h100", devices=(0,))


def test_a_variant_that_is_not_here_is_not_given() -> None:
    assert Ledger(SHAPE).reserve("a", gpu("b200", 1)) is None


def test_a_request_for_nothing_fits_a_full_machine() -> None:
    ledger = Ledger(SHAPE)
    ledger.reserve("a", Resources(4000, 1000))
    assert ledger.reserve("b", Resources()) == Allotment()


def test_what_runs_counts_even_where_the_machine_has_shrunk_since() -> None:
    ledger = Ledger(NodeShape(1000, 1000, {"h100": 1}))
    ledger.restore("a", Allotment(3000, 2000, "h100", (0, 1, 2)))
    free = ledger.free()
    assert (free.cpu_millicores, free.memory_bytes, free.devices) == (0, 0, {"h100": 0})
    ledger.release("a")
    assert ledger.free() == ledger.shape


def test_the_refusal_names_what_lacks() -> None:
    free = NodeShape(500, 1000, {"h100": 0})
    shape = NodeShape(4000, 1000, {"h100": 8})
    assert lacking(shape, free, Resources(1000)) == "1000 millicores of CPU asked for, 500 of 4000 free"
    assert lacking(shape, free, gpu("h100", 2)) == "2 h100 asked for, free: 0 h100 of 8 h100"
    assert lacking(NodeShape(1, 1), NodeShape(1, 1), gpu("h100", 2)) == "2 h100 asked for, free: none of none"


@given(
    st.lists(
        st.tuples(
            st.integers(0, 9),
            st.booleans(),
            st.integers(0, 3000),
            st.sampled_from(["", "h100", "a100"]),
            st.integers(0, 4),
        )
    )
)
def test_nothing_is_ever_given_twice_and_all_of_it_comes_back(steps: list[tuple[int, bool, int, str, int]]) -> None:
    ledger = Ledger(SHAPE)
    held: dict[str, Allotment] = {}
    for number, takes, cpu, variant, count in steps:
        uid = f"u{number}"
        if not takes:
            ledger.release(uid)
            held.pop(uid, None)
        elif uid not in held:
            device = Device(DeviceKind.GPU, variant, count) if count else None
            allotment = ledger.reserve(uid, Resources(cpu, 0, device=device))
            if allotment is not None:
                held[uid] = allotment
        devices = [index for one in held.values() for index in one.devices]
        assert len(devices) == len(set(devices))
        assert sum(one.cpu_millicores for one in held.values()) + ledger.free().cpu_millicores == 4000
    for uid in held:
        ledger.release(uid)
    assert ledger.free() == SHAPE
