"""Everything about one job, on a page."""

import shlex
from typing import Any

from iris_fed.cli import formats
from iris_fed.cli.job_list import now_ms, run_time_ms
from iris_fed.cli.session import as_json
from iris_fed.cli.terminal import one_line, print_fields, print_table
from iris_fed.client import Client
from iris_fed.errors import IrisFedError
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.irisfed.cluster_pb2 import ListJobEventsResponse
from iris_fed.rpc.gen.job import job_pb2

_SIGNS = {
    job_pb2.CONSTRAINT_OP_EQ: "=",
    job_pb2.CONSTRAINT_OP_NE: "!=",
    job_pb2.CONSTRAINT_OP_GT: ">",
    job_pb2.CONSTRAINT_OP_GE: ">=",
    job_pb2.CONSTRAINT_OP_LT: "<",
    job_pb2.CONSTRAINT_OP_LE: "<=",
    job_pb2.CONSTRAINT_OP_IN: " in ",
    job_pb2.CONSTRAINT_OP_EXISTS: " exists",
    job_pb2.CONSTRAINT_OP_NOT_EXISTS: " not exists",
}


async def description(client: Client, job_id: str) -> dict[str, Any]:
    """The job's status and request, its tasks and its events, as one document."""
    document = as_json(await client.job(job_id))
    document["tasks"] = as_json(await client.tasks(job_id)).get("tasks", [])
    document["events"] = as_json(await client.events(job_id)).get("events", [])
    return document


async def describe(client: Client, job_id: str) -> None:
    """Print the page."""
    answer = await client.job(job_id)
    tasks = (await client.tasks(job_id)).tasks
    print_fields(_status_fields(answer.job) + _request_fields(answer.request))
    print()
    print_table(
        ("TASK", "STATE", "WHERE", "ATTEMPT", "EXIT", "TIME", "MEMORY PEAK", "REASON"),
        [_task_row(task) for task in tasks],
    )
    attempts = [_attempt_row(task, attempt) for task in tasks if len(task.attempts) > 1 for attempt in task.attempts]
    if attempts:
        print()
        print_table(("TASK", "ATTEMPT", "STATE", "EXIT", "TIME", "NODE", "REASON"), attempts)
    print()
    try:
        print_events(await client.events(job_id))
    except IrisFedError as error:
        print(f"events: {one_line(error.message)}")


def print_events(answer: ListJobEventsResponse) -> None:
    rows = [
        (
            formats.clock_time(event.time_ms),
            str(event.task_index) if event.HasField("task_index") else "",
            event.kind,
            event.message,
        )
        for event in answer.events
    ]
    print_table(("WHEN", "TASK", "EVENT", "WHAT HAPPENED"), rows)


def resources_text(resources: job_pb2.ResourceSpecProto) -> str:
    """`2 cores, 8 GB, h100 x8`; "" when nothing was asked for."""
    parts = []
    if resources.cpu_millicores:
        parts.append(f"{formats.cores(resources.cpu_millicores)} cores")
    if resources.memory_bytes:
        parts.append(f"{formats.size(resources.memory_bytes)} memory")
    if resources.disk_bytes:
        parts.append(f"{formats.size(resources.disk_bytes)} disk")
    kind = resources.device.WhichOneof("device")
    if kind == "gpu":
        parts.append(f"{resources.device.gpu.variant or 'gpu'} x{max(1, resources.device.gpu.count)}")
    elif kind == "tpu":
        parts.append(f"{resources.device.tpu.variant or 'tpu'} x{max(1, resources.device.tpu.count)}")
    return ", ".join(parts)


def constraint_text(constraint: job_pb2.Constraint) -> str:
    """As `--constraint` takes it."""
    values = list(constraint.values) or ([constraint.value] if constraint.HasField("value") else [])
    shown = ",".join(str(getattr(value, value.WhichOneof("value") or "string_value")) for value in values)
    preferred = " (preferred)" if constraint.mode == job_pb2.CONSTRAINT_MODE_PREFERRED else ""
    return f"{constraint.key}{_SIGNS[constraint.op]}{shown}{preferred}"


def _status_fields(job: job_pb2.JobStatus) -> list[tuple[str, str]]:
    peer = job_pb2.PeerStatus.Name(job.peer_status).removeprefix("PEER_STATUS_")
    return [
        ("job", job.job_id),
        ("state", formats.state(job_pb2.JobState.Name(job.state))),
        ("exit code", str(job.exit_code) if job.HasField("exit_code") else ""),
        ("reason", job.pending_reason or job.error or job.status_message),
        ("runs on", formats.place(job.cluster, job.backend_id)),
        ("at the peer", "" if peer == "NONE" else peer),
        ("submitted by", job.submitting_user),
        ("submitted", _time(job, "submitted_at")),
        ("started", _time(job, "started_at")),
        ("finished", _time(job, "finished_at")),
        ("time", formats.duration(run_time_ms(job, now_ms()))),
        ("tasks", f"{job.completed_count} of {job.task_count} done"),
        ("failures", str(job.failure_count or "")),
        ("preemptions", str(job.preemption_count or "")),
        ("parent", job.parent_job_id),
    ]


def _request_fields(request: Controller.LaunchJobRequest) -> list[tuple[str, str]]:
    band = job_pb2.PriorityBand.Name(request.priority_band).removeprefix("PRIORITY_BAND_").lower()
    environment = request.environment
    return [
        ("submitted as", shlex.join(request.submit_argv)),
        ("command", shlex.join(request.entrypoint.run_command.argv)),
        ("resources", resources_text(request.resources)),
        ("constraints", "; ".join(constraint_text(constraint) for constraint in request.constraints)),
        ("environment", shlex.join(f"{key}={value}" for key, value in sorted(environment.env_vars.items()))),
        ("secrets", ", ".join(sorted(environment.secrets))),
        ("priority", "" if band == "inherit" else band),
        ("timeout", formats.duration(request.timeout.milliseconds) if request.HasField("timeout") else ""),
        ("retries", str(request.max_retries_failure or "")),
        ("ports", ", ".join(request.ports)),
    ]


def _task_row(task: job_pb2.TaskStatus) -> tuple[str, ...]:
    usage = task.resource_usage
    return (
        task.task_id.rpartition("/")[2],
        formats.state(job_pb2.TaskState.Name(task.state)),
        formats.place(task.cluster, task.backend_id),
        str(task.current_attempt_id),
        str(task.exit_code) if task.HasField("exit_code") else "-",
        formats.duration(run_time_ms(task, now_ms())),
        f"{usage.memory_peak_mb} MB" if usage.memory_peak_mb else "-",
        task.pending_reason or task.error or task.status_message,
    )


def _attempt_row(task: job_pb2.TaskStatus, attempt: job_pb2.TaskAttempt) -> tuple[str, ...]:
    return (
        task.task_id.rpartition("/")[2],
        str(attempt.attempt_id),
        formats.state(job_pb2.TaskState.Name(attempt.state)),
        str(attempt.exit_code) if attempt.HasField("exit_code") else "-",
        formats.duration(run_time_ms(attempt, now_ms())),
        attempt.node_name or attempt.worker_id,
        attempt.error or attempt.terminal_reason,
    )


def _time(job: job_pb2.JobStatus, field: str) -> str:
    return formats.clock_time(getattr(job, field).epoch_ms) if job.HasField(field) else ""
