"""Jobs, tasks and attempts as answers show them."""

from collections.abc import Callable, Mapping, Sequence

from iris_fed.model.ids import parse_job_id, task_id
from iris_fed.model.jobs import Attempt, JobEvent, JobPage, JobReport, JobView, TaskView, UserSummary
from iris_fed.model.resources import Usage
from iris_fed.model.states import JobState, TaskState, task_ended
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.irisfed import cluster_pb2
from iris_fed.rpc.gen.job import job_pb2
from iris_fed.rpc.wire.checks import INT32_MAX, wire_time
from iris_fed.rpc.wire.enums import JOB_STATES, PEER_STATUSES, TASK_STATES
from iris_fed.rpc.wire.queries import page_token
from iris_fed.rpc.wire.resources import resources_to_wire

MEBIBYTE = 2**20


def job_to_wire(view: JobView, tasks: Sequence[TaskView] = ()) -> job_pb2.JobStatus:
    """`tasks` are shown in full only where the caller wants them, since a job may have thousands."""
    job = view.job
    return job_pb2.JobStatus(
        job_id=job.job_id,
        state=JOB_STATES.wire_name(job.state),
        exit_code=job.exit_code,
        error=job.error or None,
        started_at=wire_time(job.started_ms),
        finished_at=wire_time(job.finished_ms),
        failure_count=job.failure_count,
        preemption_count=job.preemption_count,
        tasks=[task_to_wire(task) for task in tasks],
        name=parse_job_id(job.job_id).name,
        submitted_at=wire_time(job.submitted_ms),
        resources=resources_to_wire(job.spec.resources),
        task_state_counts=view.task_counts,
        task_count=job.task_count,
        completed_count=_ended_tasks(view.task_counts),
        pending_reason=job.pending_reason or None,
        has_children=view.has_children,
        parent_job_id=view.parent_job_id or None,
        backend_id=job.backend_id or None,
        cluster=job.cluster or None,
        peer_status=PEER_STATUSES.wire_name(job.peer_status),
        submitting_user=job.submitting_user or None,
        retained_until=wire_time(view.retained_until_ms),
    )


def _ended_tasks(counts: Mapping[str, int]) -> int:
    return sum(count for state, count in counts.items() if task_ended(TaskState(state)))


def report_to_wire(report: JobReport) -> job_pb2.JobStatus:
    """How an incarnation ended that has no job row any more."""
    return job_pb2.JobStatus(
        job_id=report.job_id,
        state=JOB_STATES.wire_name(report.state),
        exit_code=report.exit_code,
        error=report.error or None,
        pending_reason=report.pending_reason or None,
        submitted_at=wire_time(report.submitted_ms),
        started_at=wire_time(report.started_ms),
        finished_at=wire_time(report.finished_ms),
        failure_count=report.failure_count,
        preemption_count=report.preemption_count,
        task_count=report.task_count,
        parent_job_id=report.parent_job_id or None,
        backend_id=report.backend_id or None,
        submitting_user=report.submitting_user or None,
    )


def task_to_wire(view: TaskView) -> job_pb2.TaskStatus:
    """Where it runs, its ports and usage are those of its latest attempt."""
    task, latest = view.task, view.attempts[-1] if view.attempts else None
    return job_pb2.TaskStatus(
        task_id=task_id(view.job_id, task.index),
        state=TASK_STATES.wire_name(task.state),
        worker_id=(latest and latest.node) or None,
        worker_address=(latest and latest.address) or None,
        exit_code=task.exit_code,
        error=task.error or None,
        started_at=wire_time(task.started_ms),
        finished_at=wire_time(task.finished_ms),
        ports=latest.ports if latest else None,
        resource_usage=_usage(latest.usage) if latest else None,
        current_attempt_id=task.current_attempt if task.current_attempt >= 0 else None,
        attempts=[_attempt(attempt) for attempt in view.attempts],
        pending_reason=task.pending_reason or None,
        backend_id=task.backend_id or None,
        cluster=view.cluster or None,
        submitted_at=wire_time(task.submitted_ms),
    )


def _attempt(attempt: Attempt) -> job_pb2.TaskAttempt:
    return job_pb2.TaskAttempt(
        attempt_id=attempt.number,
        worker_id=attempt.node or None,
        node_name=attempt.node or None,
        state=TASK_STATES.wire_name(attempt.state),
        exit_code=attempt.exit_code,
        error=attempt.error or None,
        started_at=wire_time(attempt.started_ms),
        finished_at=wire_time(attempt.finished_ms),
        is_worker_failure=attempt.is_worker_failure,
        attempt_uid=attempt.attempt_uid,
        terminal_reason=attempt.terminal_reason or None,
    )


def _usage(usage: Usage) -> job_pb2.ResourceUsage:
    return job_pb2.ResourceUsage(
        memory_mb=_mebibytes(usage.memory_bytes),
        disk_mb=_mebibytes(usage.disk_bytes),
        cpu_millicores=min(usage.cpu_millicores, INT32_MAX),
        memory_peak_mb=_mebibytes(usage.memory_peak_bytes),
        process_count=usage.process_count,
    )


def _mebibytes(size: int) -> int:
    """Rounded up, so that something never shows as nothing."""
    return -(-size // MEBIBYTE)


def users_to_wire(users: Sequence[UserSummary], roles: Callable[[str], str]) -> Controller.ListUsersResponse:
    """`roles` gives the role of a user name."""
    return Controller.ListUsersResponse(
        users=[
            Controller.UserSummary(
                user=user.user,
                task_state_counts=user.task_counts,
                job_state_counts=user.job_counts,
                role=roles(user.user),
            )
            for user in users
        ]
    )


def job_page_to_wire(page: JobPage, sort: str = "date") -> Controller.ListJobsResponse:
    return Controller.ListJobsResponse(
        jobs=[job_to_wire(view) for view in page.jobs],
        total_count=min(page.total, INT32_MAX),
        has_more=page.has_more,
        next_page_token=page_token(sort, page.next_after),
    )


def job_states_to_wire(states: Mapping[str, JobState]) -> Controller.GetJobStateResponse:
    """Unknown ids are simply not in the answer."""
    answer = Controller.GetJobStateResponse()
    for job_id, state in states.items():
        answer.states[job_id] = JOB_STATES.number(state)  # type: ignore[assignment]
    return answer


def job_events_to_wire(events: Sequence[JobEvent]) -> cluster_pb2.ListJobEventsResponse:
    """In the order given."""
    return cluster_pb2.ListJobEventsResponse(
        events=[
            cluster_pb2.JobEvent(
                time_ms=event.time_ms, kind=event.kind, message=event.message, task_index=event.task_index
            )
            for event in events
        ]
    )
