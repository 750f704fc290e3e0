"""What it means for a place to satisfy a constraint."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iris_fed.model.constraints import Constraint, Op, Scalar, implied_by, satisfies
from iris_fed.model.resources import Device, DeviceKind, Resources

PLACE = {
    "device-variant": ("H100", "a100"),
    "region": ("us-east1",),
    "memory": ("80",),
    "empty": (),
    "odd": ("abc", "7"),
}


@pytest.mark.parametrize(
    ("key", "op", "values", "met"),
    [
        ("region", Op.EQ, ("us-east1",), True),
        ("region", Op.EQ, ("US-East1",), True),
        ("region", Op.EQ, ("us-east",), False),
        ("device-variant", Op.EQ, ("h100",), True),
        ("device-variant", Op.EQ, ("a100",), True),
        ("device-variant", Op.EQ, ("b200",), False),
        ("device-variant", Op.NE, ("b200",), True),
        ("device-variant", Op.NE, ("h100",), False),
        ("device-variant", Op.IN, ("b200", "a100"), True),
        ("device-variant", Op.IN, ("b200", "c3"), False),
        ("device-variant", Op.IN, (), False),
        ("region", Op.EXISTS, (), True),
        ("zone", Op.EXISTS, (), False),
        ("region", Op.NOT_EXISTS, (), False),
        ("zone", Op.NOT_EXISTS, (), True),
        ("memory", Op.EQ, (80,), True),
        ("memory", Op.EQ, (80.0,), True),
        ("memory", Op.EQ, (79,), False),
        ("memory", Op.GT, (79,), True),
        ("memory", Op.GT, (80,), False),
        ("memory", Op.GE, (80,), True),
        ("memory", Op.GE, (80.5,), False),
        ("memory", Op.LT, ("81",), True),
        ("memory", Op.LT, (80,), False),
        ("memory", Op.LE, (80,), True),
        ("memory", Op.LE, (79.9,), False),
        ("memory", Op.LE, ("plenty",), False),
        ("region", Op.GT, (1,), False),
        ("odd", Op.GT, (6,), True),
        ("region", Op.EQ, (1,), False),
    ],
)
def test_a_place_meets_what_it_advertises(key: str, op: Op, values: tuple[Scalar, ...], met: bool) -> None:
    assert satisfies(Constraint(key, op, values), PLACE) is met


@given(st.sampled_from(sorted(set(Op) - {Op.NOT_EXISTS})), st.one_of(st.integers(), st.text(max_size=3)))
def test_a_key_that_is_not_advertised_satisfies_nothing_but_its_absence(op: Op, value: Scalar) -> None:
    values = () if op is Op.EXISTS else (value,)
    assert not satisfies(Constraint("zone", op, values), PLACE)
    assert satisfies(Constraint("zone", Op.NOT_EXISTS), PLACE)


@pytest.mark.parametrize("op", [Op.EQ, Op.NE, Op.GT, Op.GE, Op.LT, Op.LE, Op.IN])
def test_a_key_advertised_without_a_value_matches_no_comparison(op: Op) -> None:
    assert not satisfies(Constraint("empty", op, (1,)), PLACE)


def test_a_device_stands_for_its_type_and_variant() -> None:
    gpu = Resources(device=Device(DeviceKind.GPU, "h100", 2))
    assert implied_by(gpu) == (
        Constraint("device-type", Op.EQ, ("gpu",)),
        Constraint("device-variant", Op.EQ, ("h100",)),
    )
    assert implied_by(Resources(device=Device(DeviceKind.TPU))) == (Constraint("device-type", Op.EQ, ("tpu",)),)
    assert implied_by(Resources(device=Device(DeviceKind.CPU, "epyc"))) == (Constraint("device-type", Op.EQ, ("cpu",)),)
    assert implied_by(Resources()) == ()


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        (Constraint("region", Op.EQ, ("x",)), "region = x"),
        (Constraint("region", Op.NE, ("x",)), "region != x"),
        (Constraint("n", Op.GE, (8,)), "n >= 8"),
        (Constraint("n", Op.LT, (8.5,)), "n < 8.5"),
        (Constraint("region", Op.IN, ("x", "y")), "region in (x, y)"),
        (Constraint("region", Op.EXISTS), "region exists"),
        (Constraint("region", Op.NOT_EXISTS), "region does not exist"),
    ],
)
def test_a_constraint_reads_as_a_person_would_write_it(constraint: Constraint, words: str) -> None:
    assert str(constraint) == words
