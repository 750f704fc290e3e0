"""Resources and constraints: what a task asks for."""

import math
from collections.abc import Iterable

from iris_fed.errors import InvalidArgument
from iris_fed.model import limits
from iris_fed.model.constraints import PIN_KEYS, Constraint, Op, Scalar
from iris_fed.model.resources import Device, DeviceKind, Resources
from iris_fed.rpc.gen.job import job_pb2
from iris_fed.rpc.wire.checks import at_most, optional_word, whole, word
from iris_fed.rpc.wire.enums import OPS, known_number

_ORDERINGS = frozenset({Op.GT, Op.GE, Op.LT, Op.LE})
_NO_VALUE = frozenset({Op.EXISTS, Op.NOT_EXISTS})


def resources_from_wire(spec: job_pb2.ResourceSpecProto, field: str = "resources") -> Resources:
    """Of one replica; absent = 0 = not asked for. Device variants become lower case."""
    return Resources(
        cpu_millicores=whole(spec.cpu_millicores, 0, limits.MAX_CPU_MILLICORES, f"{field}.cpu_millicores"),
        memory_bytes=whole(spec.memory_bytes, 0, limits.MAX_MEMORY_BYTES, f"{field}.memory_bytes"),
        disk_bytes=whole(spec.disk_bytes, 0, limits.MAX_DISK_BYTES, f"{field}.disk_bytes"),
        device=_device(spec.device, f"{field}.device"),
    )


def _device(config: job_pb2.DeviceConfig, field: str) -> Device | None:
    match config.WhichOneof("device"):
        case "cpu":
            return Device(DeviceKind.CPU, variant=_variant(config.cpu.variant, f"{field}.cpu.variant"))
        case "gpu":
            count = whole(config.gpu.count, 0, limits.MAX_DEVICE_COUNT, f"{field}.gpu.count")
            return Device(DeviceKind.GPU, _variant(config.gpu.variant, f"{field}.gpu.variant"), count)
        case "tpu":
            count = whole(config.tpu.count, 0, limits.MAX_DEVICE_COUNT, f"{field}.tpu.count")
            topology = optional_word(config.tpu.topology, limits.MAX_KEY_CHARS, f"{field}.tpu.topology")
            return Device(DeviceKind.TPU, _variant(config.tpu.variant, f"{field}.tpu.variant"), count, topology)
        case _:
            return None


def _variant(variant: str, field: str) -> str:
    return optional_word(variant, limits.MAX_KEY_CHARS, field).lower()


def resources_to_wire(resources: Resources) -> job_pb2.ResourceSpecProto:
    """Zero amounts are left out."""
    spec = job_pb2.ResourceSpecProto()
    if resources.cpu_millicores:
        spec.cpu_millicores = resources.cpu_millicores
    if resources.memory_bytes:
        spec.memory_bytes = resources.memory_bytes
    if resources.disk_bytes:
        spec.disk_bytes = resources.disk_bytes
    device = resources.device
    if device is None:
        return spec
    if device.kind is DeviceKind.CPU:
        spec.device.cpu.CopyFrom(job_pb2.CpuDevice(variant=device.variant))
    elif device.kind is DeviceKind.GPU:
        spec.device.gpu.CopyFrom(job_pb2.GpuDevice(variant=device.variant, count=device.count))
    else:
        tpu = job_pb2.TpuDevice(variant=device.variant, topology=device.topology, count=device.count)
        spec.device.tpu.CopyFrom(tpu)
    return spec


def constraints_from_wire(constraints: Iterable[job_pb2.Constraint], field: str) -> tuple[Constraint, ...]:
    """Checked one by one and against each other: at most one pin, and that one exact."""
    messages = list(constraints)
    at_most(messages, limits.MAX_CONSTRAINTS, field)
    read = tuple(_constraint(message, f"{field}[{index}]") for index, message in enumerate(messages))
    pins = [constraint.key for constraint in read if constraint.key in PIN_KEYS]
    if len(set(pins)) > 1:
        raise InvalidArgument("a job is pinned to a cluster or to a backend, not to both", field)
    if len(pins) > 1:
        raise InvalidArgument(f"a job has one {pins[0]} pin, not {len(pins)}", field)
    return read


def _constraint(message: job_pb2.Constraint, field: str) -> Constraint:
    key = word(message.key, limits.MAX_KEY_CHARS, f"{field}.key")
    op = OPS.read(message.op, f"{field}.op")
    mode = known_number("ConstraintMode", message.mode, f"{field}.mode")
    constraint = Constraint(key, op, _values(message, op, field), mode == job_pb2.CONSTRAINT_MODE_PREFERRED)
    if key in PIN_KEYS:
        _check_pin(constraint, field)
    return constraint


def _values(message: job_pb2.Constraint, op: Op, field: str) -> tuple[Scalar, ...]:
    single = message.value.WhichOneof("value") is not None
    if op is Op.IN:
        if single or not message.values:
            raise InvalidArgument("IN takes its values, at least one, in `values`", field)
        at_most(message.values, limits.MAX_CONSTRAINT_VALUES, f"{field}.values")
        return tuple(_scalar(value, f"{field}.values[{index}]") for index, value in enumerate(message.values))
    if message.values:
        raise InvalidArgument(f"only IN takes `values`; {op.value} does not", f"{field}.values")
    if op in _NO_VALUE:
        if single:
            raise InvalidArgument(f"{op.value} takes no value", f"{field}.value")
        return ()
    if not single:
        raise InvalidArgument(f"{op.value} needs a value", f"{field}.value")
    value = _scalar(message.value, f"{field}.value")
    if op in _ORDERINGS and not _is_number(value):
        raise InvalidArgument(f"{op.value} compares numbers, and {str(value)[:40]!r} is none", f"{field}.value")
    return (value,)


def _scalar(value: job_pb2.AttributeValue, field: str) -> Scalar:
    match value.WhichOneof("value"):
        case "string_value":
            return word(value.string_value, limits.MAX_VALUE_CHARS, f"{field}.string_value")
        case "int_value":
            return value.int_value
        case "float_value":
            if not math.isfinite(value.float_value):
                raise InvalidArgument("must be a finite number", f"{field}.float_value")
            return value.float_value
        case _:
            raise InvalidArgument("holds no value", field)


def _is_number(value: Scalar) -> bool:
    try:
        return math.isfinite(float(value))
    except (ValueError, OverflowError):
        return False


def _check_pin(constraint: Constraint, field: str) -> None:
    if constraint.op is not Op.EQ or not isinstance(constraint.values[0], str):
        raise InvalidArgument(f"a {constraint.key} pin is EQ with a `string_value`", f"{field}.op")
    if constraint.preferred:
        raise InvalidArgument(f"a {constraint.key} pin cannot be a mere preference", f"{field}.mode")


def constraint_to_wire(constraint: Constraint) -> job_pb2.Constraint:
    mode = "CONSTRAINT_MODE_PREFERRED" if constraint.preferred else "CONSTRAINT_MODE_REQUIRED"
    message = job_pb2.Constraint(key=constraint.key, op=OPS.wire_name(constraint.op), mode=mode)
    if constraint.op is Op.IN:
        message.values.extend(_attribute(value) for value in constraint.values)
    elif constraint.values:
        message.value.CopyFrom(_attribute(constraint.values[0]))
    return message


def _attribute(value: Scalar) -> job_pb2.AttributeValue:
    if isinstance(value, str):
        return job_pb2.AttributeValue(string_value=value)
    if isinstance(value, int):
        return job_pb2.AttributeValue(int_value=value)
    return job_pb2.AttributeValue(float_value=value)
