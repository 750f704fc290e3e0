"""Rows of jobs, tasks and attempts: loading what decisions need, and inserting and removing whole jobs."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from iris_fed.decide.draft import Draft
from iris_fed.model.jobs import Attempt, DemandQueue, Job, JobEvent, LiveAttempt, QueuedJob, Task
from iris_fed.model.spec import JobSpec
from iris_fed.model.states import TERMINAL_TASK_STATES, TaskState
from iris_fed.store.db import Tx
from iris_fed.store.rows import (
    ATTEMPT_COLUMNS,
    JOB_COLUMNS,
    TASK_COLUMNS,
    Columns,
    attempt_from_row,
    job_from_row,
    task_from_row,
    to_columns,
)

MAX_REFRESHED = 200
"""Waiting jobs of one demand whose reason is kept up to date: those at the head."""

_AWAITS_START = (
    "scheduling_deadline_ms IS NOT NULL AND cluster = '' AND started_ms IS NULL AND finished_ms IS NULL"
    " AND stop_state IS NULL"
)
_TERMINAL = ", ".join(f"'{state}'" for state in sorted(TERMINAL_TASK_STATES))


def job_by_id(tx: Tx, job_id: str) -> Job | None:
    row = tx.execute("SELECT * FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
    return job_from_row(row) if row else None


def job_by_uid(tx: Tx, uid: int) -> Job | None:
    row = tx.execute("SELECT * FROM jobs WHERE uid = ?", (uid,)).fetchone()
    return job_from_row(row) if row else None


def insert_job(tx: Tx, job: Job, events: Iterable[JobEvent] = ()) -> Job:
    """Writes a new job with one pending task per replica (none for a job that runs on a peer)."""
    columns = to_columns(replace(job, spec=without_secrets(job.spec)), JOB_COLUMNS)
    del columns["uid"]
    uid = insert(tx, "jobs", columns)
    tx.executemany(
        "INSERT INTO job_secrets (job_uid, name, value) VALUES (?, ?, ?)",
        [(uid, name, value) for name, value in job.spec.secrets.items()],
    )
    if not job.cluster:
        tx.executemany(
            "INSERT INTO tasks (job_uid, idx, state, submitted_ms, requester, nonce) VALUES (?, ?, ?, ?, ?, ?)",
            [
                (uid, index, TaskState.PENDING.value, job.submitted_ms, job.requester, job.nonce)
                for index in range(job.task_count)
            ],
        )
    for event in events:
        insert_event(tx, uid, event)
    stored = job_by_uid(tx, uid)
    assert stored is not None
    return stored


def without_secrets(spec: JobSpec) -> JobSpec:
    """Only their names are part of what is shown and kept of a job."""
    return replace(spec, secrets=dict.fromkeys(spec.secrets, ""))


def with_secrets(tx: Tx, job: Job) -> Job:
    """The job as it must be told to who starts it: with the values of its secrets."""
    if not job.spec.secrets:
        return job
    rows = tx.execute("SELECT name, value FROM job_secrets WHERE job_uid = ?", (job.uid,))
    return replace(job, spec=replace(job.spec, secrets={row["name"]: row["value"] for row in rows}))


def delete_job(tx: Tx, uid: int) -> list[str]:
    """Removes a job with its tree; returns the uids of its attempts here, whose files may go."""
    uids = [
        row["attempt_uid"]
        for row in tx.execute(
            "WITH RECURSIVE tree(uid) AS (SELECT ? UNION ALL"
            " SELECT jobs.uid FROM jobs JOIN tree ON jobs.parent_uid = tree.uid)"
            " SELECT attempt_uid FROM attempts JOIN tree ON attempts.job_uid = tree.uid WHERE mirrored = 0",
            (uid,),
        )
    ]
    tx.execute("DELETE FROM jobs WHERE uid = ?", (uid,))
    return uids


def delete_mirrored_parts(tx: Tx, uid: int) -> None:
    """Removes a mirrored job's tasks and what is below it; the job stays."""
    tx.execute("DELETE FROM jobs WHERE parent_uid = ? AND cluster <> ''", (uid,))
    tx.execute("DELETE FROM tasks WHERE job_uid = ? AND (SELECT cluster FROM jobs WHERE uid = ?) <> ''", (uid, uid))


def insert_event(tx: Tx, job_uid: int, event: JobEvent) -> None:
    tx.execute(
        "INSERT INTO job_events (job_uid, time_ms, kind, message, task_index) VALUES (?, ?, ?, ?, ?)",
        (job_uid, event.time_ms, event.kind, event.message, event.task_index),
    )


def task_counts(tx: Tx, job_uid: int) -> dict[TaskState, int]:
    rows = tx.execute("SELECT state, count(*) AS n FROM tasks WHERE job_uid = ? GROUP BY state", (job_uid,))
    return {TaskState(row["state"]): row["n"] for row in rows}


def load_draft(tx: Tx, job: Job, indexes: Collection[int] | None = None) -> Draft:
    """The job with the tasks `indexes` and their current attempts; None = all that are not over."""
    if indexes is None:
        rows = tx.execute(
            f"SELECT * FROM tasks WHERE job_uid = ? AND state NOT IN ({_TERMINAL})",
            (job.uid,),
        ).fetchall()
    else:
        rows = [
            row
            for index in sorted(indexes)
            for row in tx.execute("SELECT * FROM tasks WHERE job_uid = ? AND idx = ?", (job.uid, index))
        ]
    tasks = [task_from_row(row) for row in rows]
    failed = tx.execute(
        "SELECT * FROM tasks WHERE job_uid = ? AND state IN ('FAILED', 'WORKER_FAILED', 'UNSCHEDULABLE')"
        " ORDER BY idx LIMIT 1",
        (job.uid,),
    ).fetchone()
    return Draft(
        job,
        tasks,
        [attempt for task in tasks if (attempt := current_attempt(tx, task)) is not None],
        task_counts(tx, job.uid),
        task_from_row(failed) if failed else None,
    )


def current_attempt(tx: Tx, task: Task) -> Attempt | None:
    row = tx.execute(
        "SELECT * FROM attempts WHERE job_uid = ? AND task_index = ? AND number = ?",
        (task.job_uid, task.index, task.current_attempt),
    ).fetchone()
    return attempt_from_row(row) if row else None


def locate_attempts(tx: Tx, uids: Iterable[str]) -> dict[str, tuple[int, int, int]]:
    """For each of our own attempt uids that is known: job uid, task index, attempt number."""
    found = {}
    for uid in uids:
        row = tx.execute(
            "SELECT job_uid, task_index, number FROM attempts WHERE mirrored = 0 AND attempt_uid = ?", (uid,)
        ).fetchone()
        if row:
            found[uid] = (row["job_uid"], row["task_index"], row["number"])
    return found


def job_of_live_attempt(tx: Tx, attempt_uid: str) -> Job | None:
    """The job of one of our attempts, while the attempt is not over."""
    row = tx.execute(
        "SELECT job_uid FROM attempts WHERE mirrored = 0 AND finished_ms IS NULL AND attempt_uid = ?", (attempt_uid,)
    ).fetchone()
    return job_by_uid(tx, row["job_uid"]) if row else None


def live_attempts(tx: Tx, *, to_kill_only: bool = False) -> list[LiveAttempt]:
    """Attempts that are not over, here."""
    condition = "AND kill_requested_ms IS NOT NULL" if to_kill_only else ""
    rows = tx.execute(
        "SELECT attempt_uid, job_uid, task_index, number, backend_id, state, kill_requested_ms FROM attempts"
        f" WHERE mirrored = 0 AND finished_ms IS NULL {condition} ORDER BY created_ms, attempt_uid"
    )
    return [
        LiveAttempt(
            row["attempt_uid"],
            row["job_uid"],
            row["task_index"],
            row["number"],
            row["backend_id"],
            TaskState(row["state"]),
            row["kill_requested_ms"] is not None,
        )
        for row in rows
    ]


def demand_queues(tx: Tx) -> list[DemandQueue]:
    """All that waits for a place here, by demand; read lazily, before anything is written."""
    rows = tx.execute(
        # A skip scan: one look at the index for each demand, however many jobs it has.
        "WITH RECURSIVE demands(demand) AS (SELECT min(demand) FROM jobs WHERE queued_tasks > 0 UNION ALL"
        " SELECT (SELECT min(demand) FROM jobs WHERE queued_tasks > 0 AND demand > demands.demand)"
        " FROM demands WHERE demands.demand IS NOT NULL) SELECT demand FROM demands WHERE demand IS NOT NULL"
    )
    return [DemandQueue(row["demand"], _queued_jobs(tx, row["demand"])) for row in rows.fetchall()]


def _queued_jobs(tx: Tx, demand: str) -> Iterator[QueuedJob]:
    rows = tx.execute(
        "SELECT * FROM jobs WHERE queued_tasks > 0 AND demand = ? ORDER BY band, submitted_ms, uid", (demand,)
    )
    for row in rows:
        job = job_from_row(row)
        if job.spec.is_gang and _has_live_task(tx, job.uid):
            # The last round is not quite over.
            continue
        tasks = tx.execute("SELECT * FROM tasks WHERE job_uid = ? AND state = 'PENDING' ORDER BY idx", (job.uid,))
        yield QueuedJob(job, map(task_from_row, tasks))


def _has_live_task(tx: Tx, job_uid: int) -> bool:
    row = tx.execute(
        "SELECT 1 FROM tasks WHERE job_uid = ? AND state IN ('ASSIGNED', 'BUILDING', 'RUNNING') LIMIT 1", (job_uid,)
    ).fetchone()
    return row is not None


def count_queued_tasks(tx: Tx) -> int:
    row = tx.execute("SELECT coalesce(sum(queued_tasks), 0) AS n FROM jobs WHERE queued_tasks > 0").fetchone()
    return int(row["n"])


def earliest_retry(tx: Tx, now_ms: int) -> int | None:
    """When the next backed-off task may be placed again, epoch ms."""
    row = tx.execute(
        "SELECT min(not_before_ms) AS at FROM tasks WHERE state = 'PENDING' AND not_before_ms > ?", (max(now_ms, 0),)
    ).fetchone()
    return None if row["at"] is None else int(row["at"])


def past_scheduling_deadline(tx: Tx, now_ms: int) -> list[Job]:
    """Jobs here that nothing of started in time."""
    rows = tx.execute(f"SELECT * FROM jobs WHERE {_AWAITS_START} AND scheduling_deadline_ms <= ?", (now_ms,))
    return [job_from_row(row) for row in rows]


def next_scheduling_deadline(tx: Tx) -> int | None:
    """Epoch ms."""
    row = tx.execute(f"SELECT min(scheduling_deadline_ms) AS at FROM jobs WHERE {_AWAITS_START}").fetchone()
    return None if row["at"] is None else int(row["at"])


def explain_waiting(tx: Tx, demand: str, reason: str, *, refresh: bool) -> set[int]:
    """Say why the jobs of a demand wait: those not told before and, with `refresh`, the first
    MAX_REFRESHED anew. Returns the uids of those told."""
    rows = tx.execute(
        "UPDATE jobs SET pending_reason = ? WHERE queued_tasks > 0 AND demand = ? AND pending_reason = ''"
        " RETURNING uid",
        (reason, demand),
    ).fetchall()
    if refresh:
        rows += tx.execute(
            "UPDATE jobs SET pending_reason = ? WHERE pending_reason <> ? AND uid IN (SELECT uid FROM jobs"
            " WHERE queued_tasks > 0 AND demand = ? ORDER BY band, submitted_ms, uid LIMIT ?) RETURNING uid",
            (reason, reason, demand, MAX_REFRESHED),
        ).fetchall()
    return {row["uid"] for row in rows}


def insert(tx: Tx, table: str, columns: Columns) -> int:
    names = ", ".join(columns)
    marks = ", ".join("?" for _ in columns)
    cursor = tx.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(columns.values()))
    return int(cursor.lastrowid or 0)


def task_columns(task: Task) -> Columns:
    return to_columns(task, TASK_COLUMNS)


def attempt_columns(attempt: Attempt) -> Columns:
    return to_columns(attempt, ATTEMPT_COLUMNS)


def attempts_of(tx: Tx, job_uid: int, indexes: Sequence[int] | None = None) -> list[Attempt]:
    """Every attempt of a job, by task and number; of the tasks `indexes` only where given."""
    if indexes is None:
        rows = tx.execute("SELECT * FROM attempts WHERE job_uid = ? ORDER BY task_index, number", (job_uid,))
        return [attempt_from_row(row) for row in rows]
    return [
        attempt_from_row(row)
        for index in indexes
        for row in tx.execute(
            "SELECT * FROM attempts WHERE job_uid = ? AND task_index = ? ORDER BY number", (job_uid, index)
        )
    ]
