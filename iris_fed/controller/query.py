"""Reading: jobs, tasks, events. Mirrored jobs read like local ones."""

from dataclasses import replace

from iris_fed.config.sections import RetentionSettings
from iris_fed.errors import NotFound
from iris_fed.model.ids import parse_job_id, parse_task_id
from iris_fed.model.jobs import JobEvent, JobPage, JobQuery, JobView, TaskView, UserSummary
from iris_fed.model.limits import DAY_MS
from iris_fed.model.states import JobState
from iris_fed.store.db import Tx
from iris_fed.store.handles import is_meant
from iris_fed.store.jobs import job_by_id
from iris_fed.store.listing import (
    TaskCounts,
    count_handed_off_of,
    events_of,
    list_jobs,
    list_users,
    states_by_id,
    task_counts_here,
    task_counts_of,
    task_views,
    view_by_id,
)
from iris_fed.store.runtime import Runtime


class Queries:
    """Every method raises InvalidArgument for an illegal id and NotFound for an unknown one."""

    def __init__(self, runtime: Runtime, retention: RetentionSettings) -> None:
        self._db = runtime.db
        self._retention_ms = int(retention.jobs_days * DAY_MS)

    async def job(self, job_id: str) -> tuple[JobView, tuple[TaskView, ...]]:
        """A job with its tasks."""
        parse_job_id(job_id)

        def load(tx: Tx) -> tuple[JobView, tuple[TaskView, ...]]:
            view = view_by_id(tx, job_id)
            if view is None:
                raise NotFound(f"there is no job {job_id}")
            return self._dated(view), tuple(task_views(tx, view.job))

        return await self._db.read(load)

    def _dated(self, view: JobView) -> JobView:
        """With the time until which it is kept."""
        finished_ms = view.job.finished_ms
        return view if finished_ms is None else replace(view, retained_until_ms=finished_ms + self._retention_ms)

    async def is_owned(self, job_id: str, owner: str) -> bool:
        """Whether there is such a job and it is this user's own, handed over by nobody."""
        job = await self._db.read(lambda tx: job_by_id(tx, job_id))
        return job is not None and job.user == owner and not job.requester

    async def users(self, owner: str | None = None) -> list[UserSummary]:
        """`owner`: only this user, and only what is its own."""
        return await self._db.read(lambda tx: list_users(tx, owner))

    async def states(self, job_ids: list[str], owner: str | None = None) -> dict[str, JobState]:
        """Of those that exist, and are `owner`'s own where one is given."""
        for job_id in job_ids:
            parse_job_id(job_id, "job_ids")
        return await self._db.read(lambda tx: states_by_id(tx, job_ids, owner))

    async def jobs(self, query: JobQuery) -> JobPage:
        return await self._db.read(lambda tx: list_jobs(tx, query))

    async def tasks(self, job_id: str) -> tuple[TaskView, ...]:
        return (await self.job(job_id))[1]

    async def task(self, task_id: str) -> tuple[JobView, TaskView]:
        """A task with its job."""
        job_id, index = parse_task_id(task_id)

        def load(tx: Tx) -> tuple[JobView, TaskView]:
            view = view_by_id(tx, str(job_id))
            found = task_views(tx, view.job, [index]) if view else []
            if view is None or not found:
                raise NotFound(f"there is no task {task_id}")
            return view, found[0]

        return await self._db.read(load)

    async def task_counts_here(self, owner: str | None = None) -> TaskCounts:
        """Of `owner`'s own jobs where one is given."""
        return await self._db.read(lambda tx: task_counts_here(tx) if owner is None else task_counts_of(tx, owner))

    async def handed_off_of(self, owner: str) -> dict[str, int]:
        """How many unfinished jobs of this user each peer has."""
        return await self._db.read(lambda tx: count_handed_off_of(tx, owner))

    async def events(self, job_id: str, nonce: str = "") -> list[JobEvent]:
        parse_job_id(job_id)

        def load(tx: Tx) -> list[JobEvent]:
            job = job_by_id(tx, job_id)
            if job is None:
                raise NotFound(f"there is no job {job_id}")
            if not is_meant(tx, job, nonce):
                raise NotFound(f"the job {job_id} is of another handoff")
            return events_of(tx, job.uid)

        return await self._db.read(load)
