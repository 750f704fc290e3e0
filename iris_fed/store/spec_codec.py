"""Job specs as JSON text: how they stand in the database. Defaults are left out."""

import base64
import json
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any

from iris_fed.model.constraints import Constraint, Op
from iris_fed.model.resources import Device, DeviceKind, Resources
from iris_fed.model.spec import JobSpec

_DEFAULTS = JobSpec(argv=())


def spec_to_text(spec: JobSpec) -> str:
    document: dict[str, Any] = {}
    for item in fields(JobSpec):
        value = getattr(spec, item.name)
        if value != getattr(_DEFAULTS, item.name):
            document[item.name] = _encode(item.name, value)
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


@lru_cache(maxsize=256)
def spec_from_text(text: str) -> JobSpec:
    document = json.loads(text)
    return JobSpec(**{"argv": (), **{name: _decode(name, value) for name, value in document.items()}})


def _encode(name: str, value: Any) -> Any:
    match name:
        case "resources":
            device = value.device
            return {
                "cpu": value.cpu_millicores,
                "memory": value.memory_bytes,
                "disk": value.disk_bytes,
                "device": device and [device.kind.value, device.variant, device.count, device.topology],
            }
        case "constraints":
            return [[c.key, c.op.value, list(c.values), c.preferred] for c in value]
        case "workdir_files":
            return {path: base64.b64encode(data).decode() for path, data in value.items()}
        case _:
            return dict(value) if isinstance(value, Mapping) else value


def _decode(name: str, value: Any) -> Any:
    match name:
        case "resources":
            device = value["device"]
            return Resources(
                cpu_millicores=value["cpu"],
                memory_bytes=value["memory"],
                disk_bytes=value["disk"],
                device=device and Device(DeviceKind(device[0]), *device[1:]),
            )
        case "constraints":
            return tuple(Constraint(key, Op(op), tuple(values), soft) for key, op, values, soft in value)
        case "workdir_files":
            return {path: base64.b64decode(data) for path, data in value.items()}
        case _:
            return tuple(value) if isinstance(value, list) else value
