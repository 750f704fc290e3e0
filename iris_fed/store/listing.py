"""Reading jobs for people: one, many, their tasks and their story."""

import sqlite3
from dataclasses import dataclass, replace
from typing import Any

from iris_fed.model.jobs import Job, JobEvent, JobPage, JobQuery, JobView, Task, TaskView
from iris_fed.model.states import JobState, TaskState
from iris_fed.store.db import Tx
from iris_fed.store.jobs import attempts_of, count_queued_tasks, job_by_id, task_counts
from iris_fed.store.rows import job_from_row, task_from_row

MAX_EVENTS = 1_000
"""The newest of a job's events that are told; a job of many tasks has more."""

_ORDERS = {
    "date": "submitted_ms {d}, uid {d}",
    "name": "job_id {d}",
    "state": "state {d}, submitted_ms DESC, uid DESC",
    "failures": "failure_count {d}, uid DESC",
    "preemptions": "preemption_count {d}, uid DESC",
}


def job_view(tx: Tx, job: Job) -> JobView:
    """The job with what is counted over its tasks and children."""
    children = tx.execute("SELECT 1 FROM jobs WHERE parent_uid = ? LIMIT 1", (job.uid,)).fetchone()
    parent = ""
    if job.parent_uid is not None:
        parent = tx.execute("SELECT job_id FROM jobs WHERE uid = ?", (job.parent_uid,)).fetchone()["job_id"]
    counts = {state.value: count for state, count in task_counts(tx, job.uid).items()}
    return JobView(job=job, task_counts=counts, has_children=children is not None, parent_job_id=parent)


def view_by_id(tx: Tx, job_id: str) -> JobView | None:
    job = job_by_id(tx, job_id)
    return job_view(tx, job) if job else None


def states_by_id(tx: Tx, job_ids: list[str]) -> dict[str, JobState]:
    found = {}
    for job_id in job_ids:
        row = tx.execute("SELECT state FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
        if row:
            found[job_id] = JobState(row["state"])
    return found


def list_jobs(tx: Tx, query: JobQuery) -> JobPage:
    """One page. Sorting always ends in the uid, so that equal keys keep their order between pages."""
    where, values = _conditions(query)
    clause = f"WHERE {' AND '.join(where)}" if where else ""
    order = _ORDERS[query.sort].format(d="DESC" if query.descending else "ASC")
    total = tx.execute(f"SELECT count(*) AS n FROM jobs {clause}", values).fetchone()["n"]
    rows = tx.execute(
        f"SELECT * FROM jobs {clause} ORDER BY {order} LIMIT ? OFFSET ?", [*values, query.limit, query.offset]
    ).fetchall()
    jobs = tuple(job_view(tx, job_from_row(row)) for row in rows)
    return JobPage(jobs, total, query.offset + len(jobs) < total)


def task_views(tx: Tx, job: Job, indexes: list[int] | None = None) -> list[TaskView]:
    """Tasks with their attempts. A waiting task without a reason of its own shows its job's."""
    if indexes is None:
        rows = tx.execute("SELECT * FROM tasks WHERE job_uid = ? ORDER BY idx", (job.uid,)).fetchall()
    else:
        rows = [
            row
            for index in indexes
            for row in tx.execute("SELECT * FROM tasks WHERE job_uid = ? AND idx = ?", (job.uid, index))
        ]
    tasks = [_with_reason(task_from_row(row), job) for row in rows]
    attempts: dict[int, list[Any]] = {task.index: [] for task in tasks}
    for attempt in attempts_of(tx, job.uid, None if indexes is None else list(attempts)):
        attempts[attempt.task_index].append(attempt)
    return [
        TaskView(job_id=job.job_id, task=task, attempts=tuple(attempts[task.index]), cluster=job.cluster)
        for task in tasks
    ]


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """Tasks of jobs that run here: those that wait, and those with a live attempt by backend id."""

    pending: int
    live_by_backend: dict[str, int]


def task_counts_here(tx: Tx) -> TaskCounts:
    rows = tx.execute(
        "SELECT backend_id, count(*) AS n FROM attempts WHERE mirrored = 0 AND finished_ms IS NULL GROUP BY backend_id"
    )
    return TaskCounts(count_queued_tasks(tx), {row["backend_id"]: row["n"] for row in rows})


def events_of(tx: Tx, job_uid: int) -> list[JobEvent]:
    """Oldest first; the newest MAX_EVENTS where there are more."""
    rows = tx.execute(
        "SELECT * FROM (SELECT * FROM job_events WHERE job_uid = ? ORDER BY id DESC LIMIT ?) ORDER BY id",
        (job_uid, MAX_EVENTS),
    )
    return [_event(row) for row in rows]


def _event(row: sqlite3.Row) -> JobEvent:
    return JobEvent(row["job_uid"], row["time_ms"], row["kind"], row["message"], row["task_index"])


def _with_reason(task: Task, job: Job) -> Task:
    if task.state is TaskState.PENDING and not task.pending_reason and job.pending_reason:
        return replace(task, pending_reason=job.pending_reason)
    return task


def _conditions(query: JobQuery) -> tuple[list[str], list[Any]]:
    where: list[str] = []
    values: list[Any] = []

    def add(condition: str, *bound: Any) -> None:
        where.append(condition)
        values.extend(bound)

    if query.scope == "roots":
        add("parent_uid IS NULL")
    elif query.scope == "children":
        add("parent_uid = (SELECT uid FROM jobs WHERE job_id = ?)", query.parent_job_id)
    if query.states:
        add(f"state IN ({', '.join('?' for _ in query.states)})", *sorted(query.states))
    if query.name_contains:
        add("instr(lower(job_id), lower(?)) > 0", query.name_contains)
    if query.job_id_prefix:
        # A range rather than LIKE: it uses the index and knows no wildcards.
        add("job_id >= ? AND job_id < ?", query.job_id_prefix, query.job_id_prefix + "\U0010ffff")
    if query.backend_id:
        add("backend_id = ?", query.backend_id)
    if query.cluster:
        add("cluster = ?", "" if query.cluster == "local" else query.cluster)
    return where, values
