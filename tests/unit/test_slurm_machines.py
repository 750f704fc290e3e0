"""What is free on a Slurm cluster's machines, by what Slurm says and what we have launched since."""

from iris_fed.backends.slurm.machines import Held, Machines
from iris_fed.backends.slurm.parse import SlurmJob, SlurmNode
from iris_fed.model.resources import Device, DeviceKind, Resources

GIB = 2**30


def machine(name: str, used_cpus: int = 0, used_gpus: int = 0, usable: bool = True, gpus: int = 8) -> SlurmNode:
    used = {"h100": used_gpus} if used_gpus else {}
    return SlurmNode(name, usable, 8, 64 * GIB, {"h100": gpus} if gpus else {}, used_cpus, used_cpus * GIB, used)


def machines(*nodes: SlurmNode) -> Machines:
    made = Machines(str.lower)
    made.update(nodes, (), {})
    return made


def asks(cpus: int = 1, gpus: int = 0, variant: str = "h100") -> Resources:
    return Resources(cpus * 1000, cpus * GIB, device=Device(DeviceKind.GPU, variant, gpus) if gpus else None)


def free_gpus(made: Machines) -> dict[str, int]:
    return {name: shape.devices.get("h100", 0) for name, shape in made.free().items()}


def test_what_is_launched_is_not_free_at_once_and_what_ended_is() -> None:
    made = machines(machine("n1"), machine("n2"))
    assert made.reserve("a", asks(gpus=6), "n2")
    assert free_gpus(made) == {"n1": 8, "n2": 2}
    assert made.reserve("b", asks(gpus=8), "n2")
    assert not made.reserve("c", asks(gpus=3), "n2")
    made.release("b")
    assert free_gpus(made) == {"n1": 8, "n2": 2}


def test_our_own_jobs_are_not_counted_twice_and_others_stay_counted() -> None:
    made = machines(machine("n1"))
    assert made.reserve("a", asks(2, gpus=2), "n1")
    ours = SlurmJob("1", "a", "RUNNING", nodes=("n1",), cpus=2, memory_bytes=2 * GIB)
    made.update([machine("n1", used_cpus=5, used_gpus=3)], [ours], {"a": Held("", 0, 0, "h100", 2)})
    assert free_gpus(made) == {"n1": 5}
    assert made.free()["n1"].cpu_millicores == 3_000
    made.release("a")
    assert free_gpus(made) == {"n1": 7}


def test_a_job_on_several_machines_takes_its_share_of_each() -> None:
    made = machines(machine("n1"), machine("n2"))
    gang = SlurmJob("1", "g", "RUNNING", nodes=("n1", "n2"), cpus=8, memory_bytes=8 * GIB)
    nodes = [machine("n1", used_cpus=4, used_gpus=4), machine("n2", used_cpus=6, used_gpus=5)]
    made.update(nodes, [gang], {"g": Held("", 0, 0, "h100", 8)})
    assert free_gpus(made) == {"n1": 8, "n2": 7}


def test_machines_that_are_down_or_drained_are_neither_free_nor_counted() -> None:
    made = machines(machine("n1"), machine("n2", usable=False))
    assert (made.totals(), made.amounts(), made.count()) == ({"h100": 8}, {"h100": 8}, 1)
    assert not made.reserve("a", asks(gpus=9), "n2")


def test_equal_machines_are_one_entry_that_says_how_many_with_the_emptiest_of_them() -> None:
    made = machines(machine("n1", used_gpus=8), machine("n2", used_gpus=1), machine("n3", gpus=0))
    by_node = {one.node: one for one in made.kinds()}
    assert by_node["n2"].count == 2
    assert by_node["n2"].devices == {"h100": 7}
    assert by_node["n3"].count == 1


def test_any_gpu_means_one_kind_for_all_chips() -> None:
    mixed = SlurmNode("n1", True, 8, 64 * GIB, {"a100": 2, "h100": 4})
    made = machines(mixed)
    assert made.reserve("a", asks(gpus=4, variant=""), "")
    assert made.free()["n1"].devices == {"a100": 2, "h100": 0}


def test_the_largest_machine_is_the_one_with_most_chips() -> None:
    largest = machines(machine("n1", gpus=0), machine("n2", gpus=4)).largest()
    assert largest is not None
    assert largest.devices == {"h100": 4}
    assert machines().largest() is None
