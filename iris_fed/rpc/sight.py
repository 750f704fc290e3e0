"""Whose jobs a caller sees, and how much of them."""

from dataclasses import replace

from iris_fed.auth.identity import Identity, Role
from iris_fed.controller.query import Queries
from iris_fed.errors import NotFound, PermissionDenied
from iris_fed.federation.inbound import Inbound
from iris_fed.model.ids import parse_job_id, parse_task_id
from iris_fed.model.jobs import JobQuery

NOBODY = ""
"""Owns no job."""


class Sight:
    """What a caller may not see does not exist for it. `users_see_all` and `dashboard_reads_content` are
    the operator's settings of these names."""

    def __init__(
        self, queries: Queries, inbound: Inbound, *, users_see_all: bool, dashboard_reads_content: bool
    ) -> None:
        self._queries = queries
        self._inbound = inbound
        self._users_see_all = users_see_all
        self._dashboard_reads_content = dashboard_reads_content

    async def check(self, caller: Identity, job_id: str) -> None:
        """Raises NotFound unless the caller may know of this job; PermissionDenied for a task outside of its own."""
        if not caller.may_reach(job_id):
            raise PermissionDenied(f"a task sees only its own job {caller.subtree} and what is below it")
        if caller.role is Role.FEDERATION_PEER:
            await self._inbound.may_read(caller, job_id)
            return
        parse_job_id(job_id)
        if not await self._owns(caller, job_id):
            raise NotFound(f"there is no job {job_id}")

    async def check_task(self, caller: Identity, task: str) -> None:
        """The same of a task, for users and dashboards; who reaches into it is asked where it is found."""
        job_id, _ = parse_task_id(task)
        if not await self._owns(caller, str(job_id)):
            raise NotFound(f"there is no task {task}")

    def owner(self, caller: Identity) -> str | None:
        """The only user whose jobs the caller sees; None = everybody's."""
        if self._users_see_all or caller.role not in (Role.USER, Role.DASHBOARD):
            return None
        return caller.user or NOBODY

    def counted_for(self, caller: Identity) -> str | None:
        """As `owner`, for what tells of many jobs at once: there a task sees what the user of its job sees."""
        if caller.role is Role.JOB and not self._users_see_all:
            return parse_job_id(caller.subtree).user
        return self.owner(caller)

    def narrowed(self, caller: Identity, query: JobQuery) -> JobQuery:
        """A listing of what the caller sees; a task's holds only what is below its own job."""
        query = replace(query, owner=self.owner(caller))
        if caller.role is not Role.JOB:
            return query
        below = caller.subtree + "/"
        if query.job_id_prefix.startswith(below):
            return query
        if query.job_id_prefix and not caller.may_reach(query.job_id_prefix):
            raise PermissionDenied(f"a task sees only its own job {caller.subtree} and what is below it")
        return replace(query, job_id_prefix=below)

    def reads_content(self, caller: Identity) -> bool:
        """Whether environments and command lines are shown to it."""
        return caller.role is not Role.DASHBOARD or self._dashboard_reads_content

    async def _owns(self, caller: Identity, job_id: str) -> bool:
        owner = self.owner(caller)
        return owner is None or await self._queries.is_owned(job_id, owner)
