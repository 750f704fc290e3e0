"""Everything about one job, on a page."""

import shlex
from typing import Any

from iris_fed.cli import formats
from iris_fed.cli.job_list import COLUMNS, now_ms, rows, run_time_ms
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


MAX_CHILDREN_SHOWN = 20
MAX_CHILDREN_TOLD = 1_000


async def description(client: Client, job_id: str) -> dict[str, Any]:
    """The job's status and request, its tasks, children and events, as one document."""
    answer = await client.job(job_id)
    document = as_json(answer)
    children = await _children(client, answer.job, MAX_CHILDREN_TOLD)
    document["children"] = as_json(children).get("jobs", [])
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
    await _print_children(client, answer.job)
    attempts = [_attempt_row(task, attempt) for task in tasks if len(task.attempts) > 1 for attempt in task.attempts]
    if attempts:
        print()
        print_table(("TASK", "ATTEMPT", "STATE", "EXIT", "TIME", "NODE", "REASON"), attempts)
    print()
    try:
        print_events(await client.events(job_id))
    except IrisFedError as error:
        print(f"events: {one_line(error.message)}")


async def _print_children(client: Client, job: job_pb2.JobStatus) -> None:
    children = await _children(client, job, MAX_CHILDREN_SHOWN)
    if not children.jobs:
        return
    print()
    print_table(COLUMNS, rows(children.jobs, now_ms()))
    if children.has_more:
        print(f"{children.total_count} children; all of them: iris-fed job list --children-of {one_line(job.job_id)}")


async def _children(client: Client, job: job_pb2.JobStatus, limit: int) -> Controller.ListJobsResponse:
    """Newest first."""
    if not job.has_children:
        return Controller.ListJobsResponse()
    scope = Controller.JOB_QUERY_SCOPE_CHILDREN
    return await client.jobs_page(Controller.JobQuery(scope=scope, parent_job_id=job.job_id, limit=limit))


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
        ("kept until", _time(job, "retained_until")),
    ]


def _request_fields(request: Controller.LaunchJobRequest) -> list[tuple[str, str]]:
    band = job_pb2.PriorityBand.Name(request.priority_band).removeprefix("PRIORITY_BAND_").lower()
    environment, is_gang = request.environment, request.HasField("coscheduling")
    return [
        ("submitted as", shlex.join(request.submit_argv)),
        ("setup", "; ".join([*environment.setup_scripts, *request.entrypoint.setup_commands])),
        ("command", shlex.join(request.entrypoint.run_command.argv)),
        ("workspace", request.bundle_id),
        ("gang", f"all tasks start together, same {request.coscheduling.group_by}" if is_gang else ""),
        ("resources", resources_text(request.resources)),
        ("constraints", "; ".join(constraint_text(constraint) for constraint in request.constraints)),
        ("environment", shlex.join(f"{key}={value}" for key, value in sorted(environment.env_vars.items()))),
        ("secrets", ", ".join(sorted(environment.secrets))),
        ("priority", "" if band == "inherit" else band),
        ("timeout", _limit(request, "timeout")),
        ("setup timeout", _limit(request, "setup_timeout")),
        ("start within", _limit(request, "scheduling_timeout")),
        ("retries", str(request.max_retries_failure or "")),
        ("retries when preempted", str(request.max_retries_preemption or "")),
        ("failed tasks allowed", str(request.max_task_failures or "")),
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


def _limit(request: Controller.LaunchJobRequest, field: str) -> str:
    return formats.duration(getattr(request, field).milliseconds) if request.HasField(field) else ""
