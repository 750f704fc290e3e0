"""`irisfed.v1.ClusterService`: logs, events, and the cluster itself."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from iris_fed import __version__
from iris_fed.auth.identity import Role
from iris_fed.controller.logs import LogReader
from iris_fed.controller.watch import Watcher
from iris_fed.federation.check import check_peer
from iris_fed.model.ids import check_cluster_name, parse_job_id
from iris_fed.model.limits import MAX_KEY_CHARS, MAX_NONCE_CHARS, MAX_VALUE_CHARS
from iris_fed.model.logs import LogBatch, LogRequest
from iris_fed.rpc.controller_service import UseCases
from iris_fed.rpc.gate import caller
from iris_fed.rpc.gen.irisfed import cluster_pb2
from iris_fed.rpc.wire.checks import optional_word, whole
from iris_fed.rpc.wire.files import chunk_to_wire, listing_to_wire
from iris_fed.rpc.wire.logs import MAX_OFFSET, log_batch_to_wire, log_request_from_wire
from iris_fed.rpc.wire.places import admission_to_wire, check_steps_to_wire
from iris_fed.rpc.wire.statuses import job_events_to_wire
from iris_fed.rpc.wire.tokens import user_token_to_wire
from iris_fed.rpc.wire.watch import changes_to_wire, watch_from_wire

MAX_BATCHES_AHEAD = 4
"""Read ahead of a slow reader: no more, so that a stream costs bounded memory."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What GetClusterInfo tells; `started_ms` in epoch milliseconds."""

    cluster: str
    database_id: str
    started_ms: int


class ClusterHandlers:
    def __init__(self, facts: ClusterFacts, logs: LogReader, watcher: Watcher, use_cases: UseCases) -> None:
        self._facts = facts
        self._logs = logs
        self._watcher = watcher
        self._reach = use_cases.reach
        self._story = use_cases.story
        self._inbound = use_cases.inbound
        self._federation = use_cases.federation
        self._sight = use_cases.sight
        self._tokens = use_cases.tokens

    async def get_cluster_info(
        self, request: cluster_pb2.GetClusterInfoRequest, ctx: Any, /
    ) -> cluster_pb2.GetClusterInfoResponse:
        return cluster_pb2.GetClusterInfoResponse(
            cluster=self._facts.cluster,
            version=__version__,
            database_id=self._facts.database_id,
            started_ms=self._facts.started_ms,
            peers=self._federation.peer_names,
        )

    async def read_logs(
        self, request: cluster_pb2.ReadLogsRequest, ctx: Any, /
    ) -> AsyncIterator[cluster_pb2.ReadLogsResponse]:
        wanted = log_request_from_wire(request)
        await self._sight.check(caller(), wanted.job_id)
        async for batch in self._stream(wanted):
            yield log_batch_to_wire(batch, wanted.job_id)

    async def list_files(self, request: cluster_pb2.ListFilesRequest, ctx: Any, /) -> cluster_pb2.ListFilesResponse:
        attempt = request.attempt_id if request.HasField("attempt_id") else None
        await self._sight.check_task(caller(), request.task_id)
        return listing_to_wire(await self._reach.list_files(caller(), request.task_id, attempt, request.path))

    async def read_file(
        self, request: cluster_pb2.ReadFileRequest, ctx: Any, /
    ) -> AsyncIterator[cluster_pb2.ReadFileResponse]:
        attempt = request.attempt_id if request.HasField("attempt_id") else None
        offset = whole(request.offset, 0, MAX_OFFSET, "offset")
        await self._sight.check_task(caller(), request.task_id)
        async for chunk in self._reach.read_file(caller(), request.task_id, attempt, request.path, offset):
            yield chunk_to_wire(chunk)

    async def list_job_events(
        self, request: cluster_pb2.ListJobEventsRequest, ctx: Any, /
    ) -> cluster_pb2.ListJobEventsResponse:
        await self._sight.check(caller(), request.job_id)
        nonce = optional_word(request.handoff_nonce, MAX_NONCE_CHARS, "handoff_nonce")
        return job_events_to_wire(await self._story.events(request.job_id, nonce))

    async def watch_changes(
        self, request: cluster_pb2.WatchChangesRequest, ctx: Any, /
    ) -> cluster_pb2.WatchChangesResponse:
        who = caller()
        if request.job_id:
            await self._sight.check(who, request.job_id)
        job_id = request.job_id or (who.subtree if who.role is Role.JOB else "")
        root = str(parse_job_id(job_id).root) if job_id else ""
        watch = watch_from_wire(request, f"{who.role} {who.principal}", root, self._sight.owner(who))
        return changes_to_wire(await self._watcher.wait(watch))

    async def check_peer(self, request: cluster_pb2.CheckPeerRequest, ctx: Any, /) -> cluster_pb2.CheckPeerResponse:
        link = self._federation.link(request.peer)
        return check_steps_to_wire(await check_peer(link, caller().principal))

    async def forget_peer(self, request: cluster_pb2.ForgetPeerRequest, ctx: Any, /) -> cluster_pb2.ForgetPeerResponse:
        check_cluster_name(request.peer, "peer")
        lost = await self._federation.forget(request.peer, caller().principal)
        return cluster_pb2.ForgetPeerResponse(jobs_lost=lost)

    async def check_admission(
        self, request: cluster_pb2.CheckAdmissionRequest, ctx: Any, /
    ) -> cluster_pb2.CheckAdmissionResponse:
        return admission_to_wire(await self._inbound.check_admission(caller(), request.submitting_user))

    async def create_user_token(
        self, request: cluster_pb2.CreateUserTokenRequest, ctx: Any, /
    ) -> cluster_pb2.CreateUserTokenResponse:
        note = optional_word(request.note, MAX_VALUE_CHARS, "note")
        token, kept = await self._tokens.create(caller(), request.user, request.role, request.lifetime_s, note)
        return cluster_pb2.CreateUserTokenResponse(token=token, info=user_token_to_wire(kept))

    async def list_user_tokens(
        self, request: cluster_pb2.ListUserTokensRequest, ctx: Any, /
    ) -> cluster_pb2.ListUserTokensResponse:
        tokens = await self._tokens.unexpired(caller(), request.user)
        return cluster_pb2.ListUserTokensResponse(tokens=[user_token_to_wire(token) for token in tokens])

    async def revoke_user_token(
        self, request: cluster_pb2.RevokeUserTokenRequest, ctx: Any, /
    ) -> cluster_pb2.RevokeUserTokenResponse:
        token_id = optional_word(request.token_id, MAX_KEY_CHARS, "token_id")
        revoked = await self._tokens.revoke(caller(), token_id, request.user)
        return cluster_pb2.RevokeUserTokenResponse(tokens=[user_token_to_wire(token) for token in revoked])

    async def _stream(self, wanted: LogRequest) -> AsyncIterator[LogBatch]:
        """The reader pushes into a short queue from a task of its own, so that no cancel scope spans a yield."""
        queue: asyncio.Queue[LogBatch | None] = asyncio.Queue(MAX_BATCHES_AHEAD)

        async def produce() -> None:
            try:
                await self._logs.read(wanted, queue.put)
            finally:
                await queue.put(None)

        producer = asyncio.create_task(produce())
        try:
            while (batch := await queue.get()) is not None:
                yield batch
            await producer
        finally:
            producer.cancel()
            await asyncio.gather(producer, return_exceptions=True)
