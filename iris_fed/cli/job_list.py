"""Which jobs `job list` shows, and how."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass

from iris_fed.cli import formats
from iris_fed.client import Client
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2

RECENT_MS = 24 * 3600 * 1000
WATCH_INTERVAL_S = 1.0
ACTIVE_STATES = (job_pb2.JOB_STATE_PENDING, job_pb2.JOB_STATE_BUILDING, job_pb2.JOB_STATE_RUNNING)
COLUMNS = ("JOB", "STATE", "WHERE", "TASKS", "AGE", "TIME", "REASON")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to list. `user` "" = me; `all_jobs` = everybody's, of any age. `state` "" = any."""

    all_jobs: bool = False
    state: str = ""
    user: str = ""
    cluster: str = ""
    limit: int = 100


async def list_wanted(client: Client, wanted: Wanted, now_ms: int) -> list[job_pb2.JobStatus]:
    """Root jobs, newest first, at most `wanted.limit`."""
    query = _query(wanted)
    if not wanted.all_jobs or wanted.user:
        query.job_id_prefix = f"/{wanted.user or (await client.whoami()).user_id}/"
    if wanted.all_jobs or wanted.state:
        return [job async for job in client.list_jobs(query, limit=wanted.limit)]
    return await _active_and_recent(client, query, wanted.limit, now_ms)


async def _active_and_recent(
    client: Client, query: Controller.JobQuery, limit: int, now_ms: int
) -> list[job_pb2.JobStatus]:
    found: dict[str, job_pb2.JobStatus] = {}
    async for job in client.list_jobs(query, limit=limit):
        if now_ms - job.submitted_at.epoch_ms > RECENT_MS:
            break
        found[job.job_id] = job
    for state in ACTIVE_STATES:
        query.state_filter = state_filter(state)
        async for job in client.list_jobs(query, limit=limit):
            found.setdefault(job.job_id, job)
    newest_first = sorted(found.values(), key=lambda job: -job.submitted_at.epoch_ms)
    return newest_first[:limit]


def state_filter(state: job_pb2.JobState) -> str:
    return formats.state(job_pb2.JobState.Name(state)).lower()


def rows(jobs: Iterable[job_pb2.JobStatus], now_ms: int) -> list[tuple[str, ...]]:
    """One row of COLUMNS a job."""
    return [
        (
            job.job_id,
            formats.state(job_pb2.JobState.Name(job.state)),
            formats.place(job.cluster, job.backend_id),
            f"{job.completed_count}/{job.task_count}",
            formats.age(now_ms, job.submitted_at.epoch_ms),
            formats.duration(run_time_ms(job, now_ms)),
            job.pending_reason or job.error or job.status_message,
        )
        for job in jobs
    ]


def run_time_ms(of: job_pb2.JobStatus | job_pb2.TaskStatus | job_pb2.TaskAttempt, now_ms: int) -> int | None:
    """From its start to its end, or until now; None when it never started."""
    if not of.HasField("started_at"):
        return None
    end_ms = of.finished_at.epoch_ms if of.HasField("finished_at") else now_ms
    return end_ms - of.started_at.epoch_ms


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def watch_list(client: Client, wanted: Wanted) -> None:
    """Show the list anew every second, until interrupted."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from iris_fed.cli.terminal import render_table

    console = Console()
    with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while True:
            table = render_table(COLUMNS, rows(await list_wanted(client, wanted, now_ms()), now_ms()), True)
            live.update(Text.from_ansi(table), refresh=True)
            await asyncio.sleep(WATCH_INTERVAL_S)


def _query(wanted: Wanted) -> Controller.JobQuery:
    query = Controller.JobQuery(
        scope=Controller.JOB_QUERY_SCOPE_ROOTS,
        sort_field=Controller.JOB_SORT_FIELD_DATE,
        sort_direction=Controller.SORT_DIRECTION_DESC,
    )
    if wanted.state:
        query.state_filter = wanted.state.lower()
    if wanted.cluster:
        query.cluster = wanted.cluster
    return query
