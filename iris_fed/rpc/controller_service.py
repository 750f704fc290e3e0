"""`iris.cluster.ControllerService`: from the wire to a use case and back. No decisions here."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from iris_fed.auth.identity import Role
from iris_fed.controller.cancel import Canceller
from iris_fed.controller.query import Queries
from iris_fed.controller.reach import Reach
from iris_fed.controller.story import Story
from iris_fed.controller.submit import Submitter
from iris_fed.controller.tokens import TokenDesk
from iris_fed.errors import Unimplemented
from iris_fed.federation.changes import ChangeFeed
from iris_fed.federation.inbound import Inbound
from iris_fed.federation.registry import Federation
from iris_fed.model.ids import parse_task_id
from iris_fed.model.limits import MAX_NONCE_CHARS, Limits
from iris_fed.model.resources import BackendSummary
from iris_fed.rpc.gate import caller
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2
from iris_fed.rpc.shared import SharedAnswers
from iris_fed.rpc.sight import Sight
from iris_fed.rpc.wire.checks import at_most, no_nul, optional_word
from iris_fed.rpc.wire.delivery import request_of_job
from iris_fed.rpc.wire.files import exec_result_to_wire
from iris_fed.rpc.wire.launch import submission_from_wire
from iris_fed.rpc.wire.places import backend_to_wire, peer_to_wire
from iris_fed.rpc.wire.queries import job_query_from_wire
from iris_fed.rpc.wire.resources import resources_to_wire
from iris_fed.rpc.wire.statuses import (
    job_page_to_wire,
    job_states_to_wire,
    job_to_wire,
    task_to_wire,
    users_to_wire,
)
from iris_fed.rpc.wire.sync import served_to_wire, sync_request_from_wire

MAX_STATES_ASKED = 10_000


@dataclass(frozen=True, slots=True)
class UseCases:
    """Everything that the handlers call."""

    submitter: Submitter
    canceller: Canceller
    queries: Queries
    story: Story
    reach: Reach
    inbound: Inbound
    feed: ChangeFeed
    federation: Federation
    backends: Callable[[], tuple[BackendSummary, ...]]
    limits: Limits
    role_of: Callable[[str], str]
    sight: Sight
    tokens: TokenDesk
    shared: SharedAnswers


class ControllerHandlers:
    """One method per RPC of the contract; those not built yet say so."""

    def __init__(self, use_cases: UseCases) -> None:
        self._do = use_cases

    async def launch_job(self, request: Controller.LaunchJobRequest, ctx: Any, /) -> Controller.LaunchJobResponse:
        submission = submission_from_wire(request, self._do.limits)
        # A peer identity only ever hands off, and `federation` is only ever a peer's to set.
        if submission.handoff is not None or caller().role is Role.FEDERATION_PEER:
            job_id = await self._do.inbound.admit(caller(), submission)
        else:
            job_id = await self._do.submitter.submit(caller(), submission)
        return Controller.LaunchJobResponse(job_id=job_id)

    async def get_job_status(
        self, request: Controller.GetJobStatusRequest, ctx: Any, /
    ) -> Controller.GetJobStatusResponse:
        await self._do.sight.check(caller(), request.job_id)
        view, tasks = await self._do.queries.job(request.job_id)
        asked = request_of_job(view.job, content=self._do.sight.reads_content(caller()))
        return Controller.GetJobStatusResponse(job=job_to_wire(view, tasks), request=asked)

    async def get_job_state(
        self, request: Controller.GetJobStateRequest, ctx: Any, /
    ) -> Controller.GetJobStateResponse:
        at_most(request.job_ids, MAX_STATES_ASKED, "job_ids")
        who, owner = caller(), self._do.sight.owner(caller())
        if who.role is Role.JOB:
            for job_id in request.job_ids:
                await self._do.sight.check(who, job_id)
        return job_states_to_wire(await self._do.queries.states(list(request.job_ids), owner))

    async def terminate_job(self, request: Controller.TerminateJobRequest, ctx: Any, /) -> job_pb2.Empty:
        if caller().role is Role.FEDERATION_PEER:
            nonce = optional_word(request.handoff_nonce, MAX_NONCE_CHARS, "handoff_nonce")
            await self._do.inbound.cancel(caller(), request.job_id, nonce)
        else:
            if caller().role is not Role.JOB:
                await self._do.sight.check(caller(), request.job_id)
            await self._do.canceller.cancel(caller(), request.job_id)
        return job_pb2.Empty()

    async def list_jobs(self, request: Controller.ListJobsRequest, ctx: Any, /) -> Controller.ListJobsResponse:
        query = self._do.sight.narrowed(caller(), job_query_from_wire(request.query, self._do.limits))

        async def listed() -> Controller.ListJobsResponse:
            return job_page_to_wire(await self._do.queries.jobs(query), query.sort)

        return await self._do.shared.get(("jobs", query), listed)

    async def get_task_status(
        self, request: Controller.GetTaskStatusRequest, ctx: Any, /
    ) -> Controller.GetTaskStatusResponse:
        job_id = str(parse_task_id(request.task_id)[0])
        await self._do.sight.check(caller(), job_id)
        view, task = await self._do.queries.task(request.task_id)
        return Controller.GetTaskStatusResponse(
            task=task_to_wire(task), job_resources=resources_to_wire(view.job.spec.resources)
        )

    async def list_tasks(self, request: Controller.ListTasksRequest, ctx: Any, /) -> Controller.ListTasksResponse:
        await self._do.sight.check(caller(), request.job_id)
        tasks = await self._do.queries.tasks(request.job_id)
        return Controller.ListTasksResponse(tasks=[task_to_wire(task) for task in tasks])

    async def list_backends(
        self, request: Controller.ListBackendsRequest, ctx: Any, /
    ) -> Controller.ListBackendsResponse:
        return Controller.ListBackendsResponse(backends=[backend_to_wire(b) for b in await self._counted_backends()])

    async def list_peers(self, request: Controller.ListPeersRequest, ctx: Any, /) -> Controller.ListPeersResponse:
        peers, owner = await self._do.federation.views(), self._do.sight.counted_for(caller())
        if owner is not None:
            counts = await self._do.queries.handed_off_of(owner)
            # Of the jobs of others, neither names nor numbers.
            peers = [replace(peer.without_jobs(), active_jobs=counts.get(peer.peer_id, 0)) for peer in peers]
        return Controller.ListPeersResponse(peers=[peer_to_wire(peer) for peer in peers])

    async def federation_sync(
        self, request: Controller.FederationSyncRequest, ctx: Any, /
    ) -> Controller.FederationSyncResponse:
        changes = await self._do.feed.serve(caller(), sync_request_from_wire(request))
        return served_to_wire(changes, await self._counted_backends())

    async def get_current_user(
        self, request: job_pb2.GetCurrentUserRequest, ctx: Any, /
    ) -> job_pb2.GetCurrentUserResponse:
        who = caller()
        return job_pb2.GetCurrentUserResponse(user_id=who.user, role=who.role.value, display_name=who.principal)

    async def list_users(self, request: Controller.ListUsersRequest, ctx: Any, /) -> Controller.ListUsersResponse:
        owner = self._do.sight.owner(caller())

        async def listed() -> Controller.ListUsersResponse:
            return users_to_wire(await self._do.queries.users(owner), self._do.role_of)

        return await self._do.shared.get(("users", owner), listed)

    async def exec_in_container(
        self, request: Controller.ExecInContainerRequest, ctx: Any, /
    ) -> Controller.ExecInContainerResponse:
        argv = no_nul(request.command, "command")
        await self._do.sight.check_task(caller(), request.task_id)
        return exec_result_to_wire(await self._do.reach.exec(caller(), request.task_id, argv, request.timeout_seconds))

    async def set_user_budget(
        self, request: Controller.SetUserBudgetRequest, ctx: Any, /
    ) -> Controller.SetUserBudgetResponse:
        raise _not_built("SetUserBudget")

    async def get_user_budget(
        self, request: Controller.GetUserBudgetRequest, ctx: Any, /
    ) -> Controller.GetUserBudgetResponse:
        raise _not_built("GetUserBudget")

    async def list_user_budgets(
        self, request: Controller.ListUserBudgetsRequest, ctx: Any, /
    ) -> Controller.ListUserBudgetsResponse:
        raise _not_built("ListUserBudgets")

    async def _counted_backends(self) -> tuple[BackendSummary, ...]:
        counts = await self._do.queries.task_counts_here(self._do.sight.counted_for(caller()))
        return tuple(
            replace(
                summary,
                pending_task_count=counts.pending,
                running_task_count=counts.live_by_backend.get(summary.backend_id, 0),
            )
            for summary in self._do.backends()
        )


def _not_built(method: str) -> Unimplemented:
    return Unimplemented(f"{method} is not offered by this version")
