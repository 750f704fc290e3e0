"""Constraints on where a job may run, and what it means to satisfy one.

Wire contract, "Routing constraints": a place that does not advertise a key satisfies no
constraint on it; attributes are multi-valued and one match is enough.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from iris_fed.model.resources import DeviceKind, Resources

Scalar = str | int | float

CLUSTER_KEY = "cluster"
BACKEND_KEY = "backend"
PIN_KEYS = frozenset({CLUSTER_KEY, BACKEND_KEY})
DEVICE_TYPE = "device-type"
DEVICE_VARIANT = "device-variant"


class Op(StrEnum):
    EQ = "EQ"
    NE = "NE"
    EXISTS = "EXISTS"
    NOT_EXISTS = "NOT_EXISTS"
    GT = "GT"
    GE = "GE"
    LT = "LT"
    LE = "LE"
    IN = "IN"


_ORDERINGS = frozenset({Op.GT, Op.GE, Op.LT, Op.LE})


@dataclass(frozen=True, slots=True)
class Constraint:
    """`values` holds one value for a comparison, any number for IN, none for the EXISTS pair."""

    key: str
    op: Op
    values: tuple[Scalar, ...] = ()
    preferred: bool = False

    def __str__(self) -> str:
        shown = ", ".join(str(value) for value in self.values)
        match self.op:
            case Op.EQ:
                return f"{self.key} = {shown}"
            case Op.NE:
                return f"{self.key} != {shown}"
            case Op.IN:
                return f"{self.key} in ({shown})"
            case Op.EXISTS:
                return f"{self.key} exists"
            case Op.NOT_EXISTS:
                return f"{self.key} does not exist"
            case _:
                sign = {Op.GT: ">", Op.GE: ">=", Op.LT: "<", Op.LE: "<="}[self.op]
                return f"{self.key} {sign} {shown}"


def satisfies(constraint: Constraint, attributes: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether a place with these attributes meets one constraint."""
    present = attributes.get(constraint.key)
    if constraint.op is Op.EXISTS:
        return present is not None
    if constraint.op is Op.NOT_EXISTS:
        return present is None
    if not present:
        return False
    if constraint.op is Op.NE:
        return all(not _equal(value, constraint.values[0]) for value in present)
    if constraint.op in _ORDERINGS:
        return any(_ordered(constraint.op, value, constraint.values[0]) for value in present)
    return any(_equal(value, wanted) for value in present for wanted in constraint.values)


def implied_by(resources: Resources) -> tuple[Constraint, ...]:
    """The constraints that a requested device stands for."""
    device = resources.device
    if device is None:
        return ()
    implied = [Constraint(DEVICE_TYPE, Op.EQ, (device.kind.value,))]
    if device.variant and device.kind is not DeviceKind.CPU:
        implied.append(Constraint(DEVICE_VARIANT, Op.EQ, (device.variant,)))
    return tuple(implied)


def _equal(advertised: str, wanted: Scalar) -> bool:
    if isinstance(wanted, str):
        return advertised.lower() == wanted.lower()
    number = _number(advertised)
    return number is not None and number == wanted


def _ordered(op: Op, advertised: str, wanted: Scalar) -> bool:
    left = _number(advertised)
    right = _number(wanted) if isinstance(wanted, str) else wanted
    if left is None or right is None:
        return False
    match op:
        case Op.GT:
            return left > right
        case Op.GE:
            return left >= right
        case Op.LT:
            return left < right
        case _:
            return left <= right


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
