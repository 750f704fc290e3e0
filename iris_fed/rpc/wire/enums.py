"""The wire's enum numbers beside the model's names. An unknown number is refused, never guessed."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Generic, TypeVar

from google.protobuf.descriptor import EnumDescriptor

from iris_fed.errors import InvalidArgument
from iris_fed.model.constraints import Op
from iris_fed.model.states import Band, ExistingJobPolicy, JobState, PeerStatus, TaskState
from iris_fed.rpc.gen.job import job_pb2

E = TypeVar("E", bound=Enum)
_ENUMS: Mapping[str, EnumDescriptor] = job_pb2.DESCRIPTOR.enum_types_by_name


class EnumTable(Generic[E]):
    """Members are matched by name: the wire's is the model's with a prefix."""

    def __init__(self, wire: str, prefix: str, members: Iterable[E]) -> None:
        values = _ENUMS[wire].values_by_name
        self._prefix = prefix
        self._by_number = {values[prefix + member.name].number: member for member in members}

    def wire_name(self, member: E) -> str:
        """As message constructors take it."""
        return self._prefix + member.name

    def number(self, member: E) -> int:
        return _ENUMS_NUMBERS[self.wire_name(member)]

    def read(self, number: int, field: str) -> E:
        """Raises InvalidArgument, naming `field`, for a number that is not in the table."""
        if number not in self._by_number:
            known = ", ".join(self._prefix + member.name for member in self._by_number.values())
            raise InvalidArgument(f"{number} is none of {known}", field)
        return self._by_number[number]


_ENUMS_NUMBERS = {name: value.number for enum in _ENUMS.values() for name, value in enum.values_by_name.items()}

JOB_STATES = EnumTable("JobState", "JOB_STATE_", JobState)
TASK_STATES = EnumTable("TaskState", "TASK_STATE_", TaskState)
PEER_STATUSES = EnumTable("PeerStatus", "PEER_STATUS_", PeerStatus)
BANDS = EnumTable("PriorityBand", "PRIORITY_BAND_", Band)
POLICIES = EnumTable("ExistingJobPolicy", "EXISTING_JOB_POLICY_", ExistingJobPolicy)
OPS = EnumTable("ConstraintOp", "CONSTRAINT_OP_", Op)


def known_number(wire: str, number: int, field: str) -> int:
    """A number that the model keeps as it is. Raises InvalidArgument for one the wire does not define."""
    if number not in _ENUMS[wire].values_by_number:
        known = ", ".join(_ENUMS[wire].values_by_name)
        raise InvalidArgument(f"{number} is none of {known}", field)
    return number


def number_name(wire: str, number: int) -> str:
    """The wire's name of a number that `known_number` let pass."""
    return str(_ENUMS[wire].values_by_number[number].name)


def band_from_wire(number: int, field: str) -> Band | None:
    """None = inherit."""
    return None if number == job_pb2.PRIORITY_BAND_INHERIT else BANDS.read(number, field)


def band_to_wire(band: Band | None) -> str:
    return "PRIORITY_BAND_INHERIT" if band is None else BANDS.wire_name(band)
