"""Reading jobs for people: one, many, their tasks and their story."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from iris_fed.model.jobs import Job, JobEvent, JobPage, JobQuery, JobView, Task, TaskView, UserSummary
from iris_fed.model.states import JobState, TaskState
from iris_fed.store.db import Tx
from iris_fed.store.jobs import attempts_of, count_queued_tasks, job_by_id, task_counts
from iris_fed.store.rows import job_from_row, task_from_row

MAX_EVENTS = 1_000
"""The newest of a job's events that are told; a job of many tasks has more."""

_SORT_COLUMNS = {
    "date": ("submitted_ms", "uid"),
    "name": ("job_id",),
    "state": ("state", "submitted_ms", "uid"),
    "failures": ("failure_count", "uid"),
    "preemptions": ("preemption_count", "uid"),
}
"""Each ends in something unique, so that equal keys keep their order between pages."""


_OWN = "WHERE jobs.user = ? AND jobs.requester = ''"
"""One user's own jobs: none that another cluster handed over for a user of the same name."""


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


def states_by_id(tx: Tx, job_ids: list[str], owner: str | None = None) -> dict[str, JobState]:
    """Of those that exist; with an owner, of those that are its own."""
    found = {}
    for job_id in job_ids:
        row = tx.execute("SELECT state, user, requester FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
        if row and (owner is None or (row["user"] == owner and not row["requester"])):
            found[job_id] = JobState(row["state"])
    return found


def list_jobs(tx: Tx, query: JobQuery) -> JobPage:
    """One page, by key where `query.after` is given: it holds while rows come and go."""
    where, values = _conditions(query)
    total = tx.execute(f"SELECT count(*) AS n FROM jobs {_clause(where)}", values).fetchone()["n"]
    columns, direction = _SORT_COLUMNS[query.sort], "DESC" if query.descending else "ASC"
    if query.after:
        where.append(f"({', '.join(columns)}) {'<' if query.descending else '>'} ({', '.join('?' for _ in columns)})")
        values.extend(query.after)
    order = ", ".join(f"{column} {direction}" for column in columns)
    rows = tx.execute(
        f"SELECT * FROM jobs {_clause(where)} ORDER BY {order} LIMIT ? OFFSET ?",
        [*values, query.limit + 1, 0 if query.after else query.offset],
    ).fetchall()
    more, rows = len(rows) > query.limit, rows[: query.limit]
    jobs = tuple(job_view(tx, job_from_row(row)) for row in rows)
    next_after = tuple(rows[-1][column] for column in columns) if more and rows else ()
    return JobPage(jobs, total, more, next_after)


def list_users(tx: Tx, owner: str | None = None) -> list[UserSummary]:
    """Everybody who has a job here, by name; with an owner only that one, with what is its own."""
    where, values = ("", []) if owner is None else (_OWN, [owner])
    jobs: dict[str, dict[str, int]] = {}
    rows = tx.execute(f"SELECT user, state, count(*) AS n FROM jobs {where} GROUP BY user, state ORDER BY user", values)
    for row in rows:
        jobs.setdefault(row["user"], {})[row["state"]] = row["n"]
    tasks: dict[str, dict[str, int]] = {user: {} for user in jobs}
    rows = tx.execute(
        "SELECT jobs.user, tasks.state, count(*) AS n FROM tasks JOIN jobs ON jobs.uid = tasks.job_uid"
        f" {where} GROUP BY jobs.user, tasks.state",
        values,
    )
    for row in rows:
        tasks[row["user"]][row["state"]] = row["n"]
    return [UserSummary(user, counts, tasks[user]) for user, counts in jobs.items()]


def _clause(where: list[str]) -> str:
    return f"WHERE {' AND '.join(where)}" if where else ""


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


_RUN_OR_WAIT = "count(*) AS n, sum(attempts.state = 'ASSIGNED') AS assigned"


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """Tasks of jobs that run here: those that wait, also in an engine's own queue, and those that run (or are set
    up) by backend id."""

    pending: int
    live_by_backend: dict[str, int]


def task_counts_here(tx: Tx) -> TaskCounts:
    rows = tx.execute(
        f"SELECT backend_id, {_RUN_OR_WAIT} FROM attempts"
        " WHERE mirrored = 0 AND finished_ms IS NULL GROUP BY backend_id"
    ).fetchall()
    return TaskCounts(count_queued_tasks(tx) + _assigned(rows), _running(rows))


def task_counts_of(tx: Tx, owner: str) -> TaskCounts:
    """As `task_counts_here`, of one user's own jobs."""
    rows = tx.execute(
        f"SELECT attempts.backend_id, {_RUN_OR_WAIT} FROM attempts JOIN jobs ON jobs.uid = attempts.job_uid"
        f" {_OWN} AND attempts.mirrored = 0 AND attempts.finished_ms IS NULL GROUP BY attempts.backend_id",
        (owner,),
    ).fetchall()
    waiting = tx.execute(f"SELECT coalesce(sum(queued_tasks), 0) AS n FROM jobs {_OWN}", (owner,)).fetchone()
    return TaskCounts(waiting["n"] + _assigned(rows), _running(rows))


def _assigned(rows: Iterable[sqlite3.Row]) -> int:
    return sum(row["assigned"] for row in rows)


def _running(rows: Iterable[sqlite3.Row]) -> dict[str, int]:
    return {row["backend_id"]: row["n"] - row["assigned"] for row in rows}


def count_handed_off_of(tx: Tx, owner: str) -> dict[str, int]:
    """One user's own root jobs that are not over, by the peer that they were handed to."""
    rows = tx.execute(
        f"SELECT cluster, count(*) AS n FROM jobs {_OWN} AND cluster <> '' AND parent_uid IS NULL"
        " AND finished_ms IS NULL GROUP BY cluster",
        (owner,),
    )
    return {row["cluster"]: row["n"] for row in rows}


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
    if query.owner is not None:
        add("user = ? AND requester = ''", query.owner)
    if query.backend_id:
        add("backend_id = ?", query.backend_id)
    if query.cluster:
        add("cluster = ?", "" if query.cluster == "local" else query.cluster)
    return where, values
