"""Each bound of a submission: what is at it passes, here and as a handoff; what is above is refused by name."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from iris_fed.errors import InvalidArgument
from iris_fed.model import limits
from iris_fed.model.ids import MAX_COMPONENT_CHARS
from iris_fed.model.limits import Limits
from iris_fed.model.spec import Handoff
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.wire.delivery import submission_to_wire
from iris_fed.rpc.wire.launch import submission_from_wire

BOUNDS = Limits()
Request = Controller.LaunchJobRequest
HANDOFF = Handoff("hub", "ada", "ada@lab.org", "n.mac")


def _constraints(request: Request, count: int) -> None:
    for number in range(count):
        request.constraints.add(key=f"k{number}", op=0).value.string_value = "v"


def _files(request: Request, count: int) -> None:
    for number in range(count):
        request.entrypoint.workdir_files[f"f{number}"] = b""


def _setup(request: Request, count: int) -> None:
    request.entrypoint.setup_commands.extend(["true"] * count)


CASES: dict[str, tuple[Callable[[Request, int], object], int]] = {
    "replicas": (lambda r, n: setattr(r, "replicas", n), BOUNDS.replicas),
    "resources.cpu_millicores": (lambda r, n: setattr(r.resources, "cpu_millicores", n), limits.MAX_CPU_MILLICORES),
    "resources.memory_bytes": (lambda r, n: setattr(r.resources, "memory_bytes", n), limits.MAX_MEMORY_BYTES),
    "resources.disk_bytes": (lambda r, n: setattr(r.resources, "disk_bytes", n), limits.MAX_DISK_BYTES),
    "resources.device": (lambda r, n: setattr(r.resources.device.gpu, "count", n), limits.MAX_DEVICE_COUNT),
    "max_retries_failure": (lambda r, n: setattr(r, "max_retries_failure", n), limits.MAX_RETRIES),
    "max_retries_preemption": (lambda r, n: setattr(r, "max_retries_preemption", n), limits.MAX_RETRIES),
    "timeout": (lambda r, n: setattr(r.timeout, "milliseconds", n), limits.MAX_DURATION_MS),
    "setup_timeout": (lambda r, n: setattr(r.setup_timeout, "milliseconds", n), limits.MAX_DURATION_MS),
    "scheduling_timeout": (lambda r, n: setattr(r.scheduling_timeout, "milliseconds", n), limits.MAX_DURATION_MS),
    "constraints": (_constraints, limits.MAX_CONSTRAINTS),
    "ports": (lambda r, n: r.ports.extend(f"p{number}" for number in range(n)), limits.MAX_PORTS),
    "entrypoint.setup_commands": (
        lambda r, n: r.entrypoint.setup_commands.extend(["true"] * n),
        limits.MAX_SETUP_STEPS,
    ),
    "entrypoint.workdir_files": (_files, limits.MAX_WORKDIR_FILES),
    "name": (lambda r, n: setattr(r, "name", "j" * n), MAX_COMPONENT_CHARS),
}


def _request(change: Callable[[Request, int], object], value: int) -> Request:
    request = Request(name="job")
    request.entrypoint.run_command.argv.append("true")
    change(request, value)
    return request


@pytest.mark.parametrize("field", CASES)
def test_what_is_at_its_bound_passes_here_and_as_a_handoff(field: str) -> None:
    change, most = CASES[field]
    submission = submission_from_wire(_request(change, most), BOUNDS)
    handed = replace(submission, name="/ada/hub.job", handoff=HANDOFF)
    assert submission_from_wire(submission_to_wire(handed), BOUNDS) == handed


@pytest.mark.parametrize("field", CASES)
def test_what_is_below_its_bound_passes(field: str) -> None:
    change, most = CASES[field]
    submission_from_wire(_request(change, most - 1), BOUNDS)


@pytest.mark.parametrize("field", CASES)
def test_what_is_above_its_bound_is_refused_by_name(field: str) -> None:
    change, most = CASES[field]
    with pytest.raises(InvalidArgument) as refusal:
        submission_from_wire(_request(change, most + 1), BOUNDS)
    assert refusal.value.message.startswith(field)


@pytest.mark.parametrize("field", ["entrypoint.run_command.argv", "environment"])
def test_the_size_of_command_and_environment_is_bounded(field: str) -> None:
    request = Request(name="job")
    request.entrypoint.run_command.argv.append("true")
    if field == "environment":
        request.environment.env_vars["A"] = "x" * BOUNDS.env_bytes
    else:
        request.entrypoint.run_command.argv.append("x" * BOUNDS.argv_bytes)
    with pytest.raises(InvalidArgument) as refusal:
        submission_from_wire(request, BOUNDS)
    assert refusal.value.message.startswith(field)
