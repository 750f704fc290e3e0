"""Which jobs `job list` shows, and how."""

import asyncio
import os
import shlex
import time
from collections.abc import Iterable
from dataclasses import dataclass

from iris_fed.cli import formats
from iris_fed.cli.parse import UsageError
from iris_fed.cli.session import full_id, home
from iris_fed.client import Client
from iris_fed.errors import DeadlineExceeded, Unavailable
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2

RECENT_MS = 24 * 3600 * 1000
WATCH_INTERVAL_S = 1.0
MOST_A_PAGE = 1_000
ACTIVE_STATES = (job_pb2.JOB_STATE_PENDING, job_pb2.JOB_STATE_BUILDING, job_pb2.JOB_STATE_RUNNING)
MAX_REASON_CHARS = 200
COLUMNS = ("JOB", "STATE", "WHERE", "TASKS", "AGE", "TIME", "REASON")
SORTS = {
    "date": Controller.JOB_SORT_FIELD_DATE,
    "name": Controller.JOB_SORT_FIELD_NAME,
    "state": Controller.JOB_SORT_FIELD_STATE,
    "failures": Controller.JOB_SORT_FIELD_FAILURES,
    "preemptions": Controller.JOB_SORT_FIELD_PREEMPTIONS,
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to list; "" = not given. `user` "" = me; `all_jobs` = everybody's, of any age."""

    all_jobs: bool = False
    state: str = ""
    user: str = ""
    cluster: str = ""
    limit: int = 100
    prefix: str = ""
    backend: str = ""
    children_of: str = ""
    roots: bool = True
    sort: str = ""
    page: str = ""

    @property
    def is_filtered(self) -> bool:
        """Something says which jobs are meant, so that their age does not."""
        named = (
            self.all_jobs,
            self.state,
            self.user,
            self.prefix,
            self.backend,
            self.children_of,
            self.sort,
            self.page,
        )
        return any(named)


def sort_field(text: str) -> str:
    """Raises UsageError."""
    if text and text.lower() not in SORTS:
        raise UsageError(f"--sort {text!r}: choose one of {', '.join(SORTS)}")
    return text.lower()


async def list_wanted(client: Client, wanted: Wanted, now_ms: int) -> Controller.ListJobsResponse:
    """At most `wanted.limit`, newest first unless sorted otherwise; with the token of what follows where
    it is one list."""
    query = await _query(client, wanted)
    if not wanted.is_filtered:
        return Controller.ListJobsResponse(jobs=await _active_and_recent(client, query, wanted.limit, now_ms))
    found = Controller.ListJobsResponse()
    while len(found.jobs) < wanted.limit:
        query.limit = min(wanted.limit - len(found.jobs), MOST_A_PAGE)
        answer = await client.jobs_page(query)
        found.MergeFrom(answer)
        query.page_token = answer.next_page_token
        if not answer.jobs or not query.page_token:
            break
    if not query.page_token:
        found.ClearField("next_page_token")
        found.has_more = False
    return found


def more_text(found: Controller.ListJobsResponse, limit: int) -> str:
    """How to see the rest; "" when this is all."""
    if found.next_page_token:
        return f"{len(found.jobs)} of {found.total_count} jobs; the next: --page {shlex.quote(found.next_page_token)}"
    at_limit = len(found.jobs) >= limit and not found.HasField("total_count")
    return f"the list ends at {limit} jobs; see more with --limit" if at_limit else ""


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


def shortened(reason: str) -> str:
    """For a column; the whole of it is in `job describe`."""
    return reason if len(reason) <= MAX_REASON_CHARS else reason[: MAX_REASON_CHARS - 1] + "…"


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
            shortened(job.pending_reason or job.error or job.status_message),
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
    """Show the list anew every second, until interrupted.

    While the controller is away the last picture stays, marked with its age. Raises what the first look does.
    """
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    found, seen_ms, outage = await list_wanted(client, wanted, now_ms()), now_ms(), ""
    with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while True:
            live.update(Text.from_ansi(picture(found, seen_ms, now_ms(), outage)), refresh=True)
            await asyncio.sleep(WATCH_INTERVAL_S)
            try:
                found, seen_ms, outage = await list_wanted(client, wanted, now_ms()), now_ms(), ""
            except (Unavailable, DeadlineExceeded) as error:
                outage = error.message


def picture(found: Controller.ListJobsResponse, seen_ms: int, now_ms: int, outage: str) -> str:
    """The list as a terminal shows it; above it, when there is an outage, how old it is and why."""
    from iris_fed.cli.terminal import one_line, render_table

    if not outage:
        return render_table(COLUMNS, rows(found.jobs, now_ms), True)
    stale = f"stale, {formats.age(now_ms, seen_ms)} old: {one_line(outage)}"
    return f"{stale}\n{render_table(COLUMNS, rows(found.jobs, seen_ms), True)}"


async def _query(client: Client, wanted: Wanted) -> Controller.JobQuery:
    query = Controller.JobQuery(
        scope=Controller.JOB_QUERY_SCOPE_ROOTS if wanted.roots else Controller.JOB_QUERY_SCOPE_ALL,
        sort_field=SORTS[wanted.sort or "date"],
        state_filter=wanted.state.lower() or None,
        cluster=wanted.cluster or None,
        backend_id=wanted.backend or None,
        page_token=wanted.page or None,
    )
    if wanted.children_of:
        query.scope = Controller.JOB_QUERY_SCOPE_CHILDREN
        query.parent_job_id = await full_id(client, wanted.children_of)
    elif wanted.prefix.startswith("/"):
        query.job_id_prefix = wanted.prefix
    elif wanted.user:
        query.job_id_prefix = f"/{wanted.user}/{wanted.prefix}"
    elif not wanted.all_jobs or wanted.prefix:
        await _mine(client, query, wanted)
    return query


async def _mine(client: Client, query: Controller.JobQuery, wanted: Wanted) -> None:
    me = await client.whoami()
    query.job_id_prefix = home(me, os.environ) + wanted.prefix
    if me.role == "job":
        query.scope = Controller.JOB_QUERY_SCOPE_ALL
