"""The client of one controller: the verbs of the command line, for programs."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Self, TypeVar

from connectrpc.errors import ConnectError
from pyqwest import Transport

from iris_fed.client import fetch as fetching
from iris_fed.client import file_stream, follow
from iris_fed.client.contexts import Target, find_target
from iris_fed.client.failures import passes, translate
from iris_fed.client.fetch_tasks import FetchedTasks, fetch_tasks
from iris_fed.client.log_stream import read_resuming
from iris_fed.clock import SystemClock
from iris_fed.errors import DeadlineExceeded, InvalidArgument
from iris_fed.model.ids import is_task_id, task_id
from iris_fed.rpc.connect_client import Channel
from iris_fed.rpc.credentials import Credentials
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.irisfed import cluster_pb2
from iris_fed.rpc.gen.job import job_pb2

PAGE_SIZE = 200
READ_ATTEMPTS = 3
READ_RETRY_PAUSE_S = 0.2
DEFAULT_EXEC_S = 60
SLOWEST_BYTES_PER_S = 256 * 1024
"""A link that carries a workspace more slowly than this does not carry it."""
CHECK_PEER_TIMEOUT_S = 60.0
"""The controller itself waits for DNS, TLS and the peer's answer."""

T = TypeVar("T")


class Client:
    """Speaks to the controller at `address` (an http or https URL); an async context manager.

    `token` is a bearer token; `edge_token` says where the token for a proxy in front of the controller comes
    from (`file:PATH`, `env:NAME`, `command:PROGRAM ARGUMENTS`, `google:AUDIENCE`). Every call but `logs` and
    `wait` ends within `timeout_s`. Calls raise the errors of `iris_fed.errors`: Unavailable when nobody answers,
    DeadlineExceeded when the answer is late, else what the controller refused. Reads are asked again twice when
    nobody answers; `submit` and `cancel` never are.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        edge_token: str | None = None,
        timeout_s: float = 30.0,
        transport: Transport | None = None,
    ) -> None:
        try:
            # What a command for it complains about is for this program's terminal.
            credentials = Credentials.of(token, edge_token, SystemClock(), quiet=False)
        except ValueError as error:
            raise InvalidArgument(str(error)) from error
        self.address = address.rstrip("/")
        self._timeout_s = timeout_s
        self._channel = Channel(self.address, credentials=credentials, deadline_s=timeout_s, transport=transport)

    @classmethod
    def for_target(cls, target: Target, *, timeout_s: float = 30.0) -> Self:
        """Raises InvalidArgument when the target's token file cannot be read."""
        return cls(target.address, token=target.read_token(), edge_token=target.edge_token or None, timeout_s=timeout_s)

    @classmethod
    def from_context(cls, name: str | None = None, *, timeout_s: float = 30.0) -> Self:
        """The controller the command line would speak to: environment, then contexts file; inside a task
        that task's own controller, with its token.

        Raises InvalidArgument when there is none, or none of that name.
        """
        return cls.for_target(find_target(context=name), timeout_s=timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def submit(self, request: Controller.LaunchJobRequest) -> str:
        """Returns the id under which the job runs. It is durable then: it survives a crash of the controller."""
        timeout_ms = int((self._timeout_s + request.ByteSize() / SLOWEST_BYTES_PER_S) * 1000)
        answer = await self._once(self._channel.controller.launch_job(request, timeout_ms=timeout_ms))
        return answer.job_id

    async def cancel(self, job_id: str) -> None:
        """Ask for the job's end; returns when that is accepted, not when it has ended."""
        await self._once(self._channel.controller.terminate_job(Controller.TerminateJobRequest(job_id=job_id)))

    async def job(self, job_id: str) -> Controller.GetJobStatusResponse:
        """The job's status and the request that it was submitted with."""
        request = Controller.GetJobStatusRequest(job_id=job_id)
        return await self._read(lambda: self._channel.controller.get_job_status(request))

    async def job_states(self, job_ids: Sequence[str]) -> dict[str, job_pb2.JobState]:
        """The states of the jobs that exist, by id."""
        request = Controller.GetJobStateRequest(job_ids=job_ids)
        answer = await self._read(lambda: self._channel.controller.get_job_state(request))
        return dict(answer.states)

    async def tasks(self, job_id: str) -> Controller.ListTasksResponse:
        request = Controller.ListTasksRequest(job_id=job_id)
        return await self._read(lambda: self._channel.controller.list_tasks(request))

    async def task(self, task_id: str) -> Controller.GetTaskStatusResponse:
        request = Controller.GetTaskStatusRequest(task_id=task_id)
        return await self._read(lambda: self._channel.controller.get_task_status(request))

    async def jobs_page(self, query: Controller.JobQuery) -> Controller.ListJobsResponse:
        """One page, as `query` bounds it."""
        request = Controller.ListJobsRequest(query=query)
        return await self._read(lambda: self._channel.controller.list_jobs(request))

    async def list_jobs(
        self, query: Controller.JobQuery | None = None, *, limit: int = 10_000
    ) -> AsyncIterator[job_pb2.JobStatus]:
        """The jobs that match, at most `limit`, a page at a time; the query's own page token, or offset, is
        where to begin. None is given twice or left out because others appear meanwhile."""
        page = Controller.JobQuery()
        page.CopyFrom(query or page)
        sent = 0
        while sent < limit:
            page.limit = min(PAGE_SIZE, limit - sent)
            answer = await self.jobs_page(page)
            for job in answer.jobs:
                yield job
            sent += len(answer.jobs)
            # A controller that gives no tokens pages by offset.
            page.page_token = answer.next_page_token
            page.offset += len(answer.jobs)
            if not answer.has_more or not answer.jobs:
                return

    def watch(self, job_id: str) -> AsyncIterator[job_pb2.JobStatus]:
        """The job's status now, and again each time that it has changed, until it has ended.

        Asks every 50 ms after a change, later every second; bears with a controller that is away for
        up to a minute. Raises Replaced when another submission has taken the id since the first status.
        """
        return follow.watch(self._channel, job_id)

    async def wait(self, job_id: str, timeout_s: float | None = None) -> job_pb2.JobStatus:
        """As `wait_all`, for one job."""
        return (await self.wait_all([job_id], timeout_s))[0]

    async def wait_all(self, job_ids: Sequence[str], timeout_s: float | None = None) -> list[job_pb2.JobStatus]:
        """The statuses of the jobs, in the order given, once all have ended; asked for every 50 ms at
        first, then every second.

        Bears with a controller that is away for up to a minute. Raises NotFound, Replaced when another
        submission has taken an id since it was first looked at, or DeadlineExceeded after `timeout_s`.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await follow.until_ended(self._channel, job_ids)
        except TimeoutError:
            raise DeadlineExceeded(f"{', '.join(job_ids)}: not ended within {timeout_s:g} s; it goes on") from None

    def logs(
        self,
        id: str,
        *,
        follow: bool = False,
        attempt_id: int | None = None,
        tail_lines: int = 0,
        submitted_ms: int | None = None,
    ) -> AsyncIterator[cluster_pb2.ReadLogsResponse]:
        """The output of a task, or of all tasks of a job; with `follow` until the job has ended.

        Resumes by position after a cut, for up to a minute without progress. With `submitted_ms` (a
        status's `submitted_at`) it ends where another submission has taken the id.
        """
        request = cluster_pb2.ReadLogsRequest(id=id, follow=follow, tail_lines=tail_lines, submitted_ms=submitted_ms)
        if attempt_id is not None:
            request.attempt_id = attempt_id
        return read_resuming(self._channel, request)

    async def exec(
        self, task_or_job: str, argv: Sequence[str], timeout_s: int = DEFAULT_EXEC_S
    ) -> Controller.ExecInContainerResponse:
        """Run a command beside a running task, in its directory and environment. A job means its task 0.

        The answer has no `exit_code` when the command did not end within `timeout_s` and was killed.
        Never asked twice.
        """
        request = Controller.ExecInContainerRequest(
            task_id=_task_of(task_or_job), command=argv, timeout_seconds=timeout_s
        )
        timeout_ms = int((timeout_s + self._timeout_s) * 1000)
        return await self._once(self._channel.controller.exec_in_container(request, timeout_ms=timeout_ms))

    async def list_files(
        self, task_or_job: str, path: str = "", attempt_id: int | None = None
    ) -> cluster_pb2.ListFilesResponse:
        """The file, or what the folder holds, below a task's work directory. A job means its task 0."""
        request = cluster_pb2.ListFilesRequest(task_id=_task_of(task_or_job), path=path, attempt_id=attempt_id)
        return await self._read(lambda: self._channel.cluster.list_files(request))

    def read_file(
        self, task_or_job: str, path: str, *, offset: int = 0, attempt_id: int | None = None
    ) -> AsyncIterator[file_stream.Piece]:
        """A file of a task's work directory from `offset` on, to what is its end now; at least one piece.

        Resumes after a cut, for up to a minute without progress. Raises Aborted when it changes meanwhile.
        """
        request = cluster_pb2.ReadFileRequest(
            task_id=_task_of(task_or_job), path=path, offset=offset, attempt_id=attempt_id
        )
        return file_stream.read_resuming(self._channel, request)

    async def fetch(
        self,
        task_or_job: str,
        path: str,
        destination: str | os.PathLike[str],
        *,
        attempt_id: int | None = None,
        max_bytes: int = fetching.MAX_BYTES,
        progress: fetching.Progress | None = None,
    ) -> fetching.Fetched:
        """Bring a file or folder of a task's work directory into the folder `destination`; called again
        it goes on where it was cut. See `iris_fed.client.fetch.fetch`."""
        source = _TaskFiles(self, _task_of(task_or_job), attempt_id)
        return await fetching.fetch(source, path, destination, max_bytes=max_bytes, progress=progress)

    async def fetch_tasks(
        self,
        job_id: str,
        path: str,
        destination: str | os.PathLike[str],
        *,
        attempt_id: int | None = None,
        max_bytes: int = fetching.MAX_BYTES,
        progress: fetching.Progress | None = None,
    ) -> FetchedTasks:
        """As `fetch`, of every task of a job, each into the folder `destination`/<task index>."""
        count = (await self.job(job_id)).job.task_count

        def source_of(index: int) -> fetching.Source:
            return _TaskFiles(self, task_id(job_id, index), attempt_id)

        return await fetch_tasks(source_of, range(count), path, destination, max_bytes=max_bytes, progress=progress)

    async def users(self) -> Controller.ListUsersResponse:
        """Who has jobs here, and what they are doing."""
        return await self._read(lambda: self._channel.controller.list_users(Controller.ListUsersRequest()))

    async def events(self, job_id: str) -> cluster_pb2.ListJobEventsResponse:
        """What happened to the job, oldest first."""
        request = cluster_pb2.ListJobEventsRequest(job_id=job_id)
        return await self._read(lambda: self._channel.cluster.list_job_events(request))

    async def backends(self) -> Controller.ListBackendsResponse:
        return await self._read(lambda: self._channel.controller.list_backends(Controller.ListBackendsRequest()))

    async def peers(self) -> Controller.ListPeersResponse:
        return await self._read(lambda: self._channel.controller.list_peers(Controller.ListPeersRequest()))

    async def check_peer(self, peer: str) -> cluster_pb2.CheckPeerResponse:
        """Let the controller test its way to one of its peers, step by step."""
        request = cluster_pb2.CheckPeerRequest(peer=peer)
        timeout_ms = int(CHECK_PEER_TIMEOUT_S * 1000)
        return await self._read(lambda: self._channel.cluster.check_peer(request, timeout_ms=timeout_ms))

    async def forget_peer(self, peer: str) -> cluster_pb2.ForgetPeerResponse:
        """Give up a peer that never comes back: its unfinished jobs end as lost."""
        return await self._once(self._channel.cluster.forget_peer(cluster_pb2.ForgetPeerRequest(peer=peer)))

    async def info(self) -> cluster_pb2.GetClusterInfoResponse:
        return await self._read(lambda: self._channel.cluster.get_cluster_info(cluster_pb2.GetClusterInfoRequest()))

    async def whoami(self) -> job_pb2.GetCurrentUserResponse:
        return await self._read(lambda: self._channel.controller.get_current_user(job_pb2.GetCurrentUserRequest()))

    async def create_token(
        self, user: str = "", *, role: str = "", lifetime_s: int = 0, note: str = ""
    ) -> cluster_pb2.CreateUserTokenResponse:
        """A user token for `user`, the caller if empty: see `CreateUserTokenRequest`. It is told only here."""
        request = cluster_pb2.CreateUserTokenRequest(user=user, role=role, lifetime_s=lifetime_s, note=note)
        return await self._once(self._channel.cluster.create_user_token(request))

    async def tokens(self, user: str = "") -> cluster_pb2.ListUserTokensResponse:
        """Tokens that have not expired; all that the caller may know of if `user` is empty."""
        request = cluster_pb2.ListUserTokensRequest(user=user)
        return await self._read(lambda: self._channel.cluster.list_user_tokens(request))

    async def revoke_token(self, token_id: str = "", *, user: str = "") -> cluster_pb2.RevokeUserTokenResponse:
        """Revoke one token, or all of `user`. Twice is no error."""
        request = cluster_pb2.RevokeUserTokenRequest(token_id=token_id, user=user)
        return await self._once(self._channel.cluster.revoke_user_token(request))

    async def _once(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except ConnectError as error:
            raise translate(error, self.address) from error

    async def _read(self, call: Callable[[], Awaitable[T]]) -> T:
        for attempt in range(1, READ_ATTEMPTS + 1):
            try:
                return await call()
            except ConnectError as error:
                if attempt == READ_ATTEMPTS or not passes(error):
                    raise translate(error, self.address) from error
            await asyncio.sleep(READ_RETRY_PAUSE_S * attempt)
        raise AssertionError("unreachable")


class _TaskFiles:
    """The files of one attempt, for a fetch."""

    def __init__(self, client: Client, task: str, attempt_id: int | None) -> None:
        self._client = client
        self._task = task
        self._attempt_id = attempt_id

    @property
    def key(self) -> str:
        return f"{self._task}:{self._attempt_id}"

    async def list(self, path: str) -> cluster_pb2.ListFilesResponse:
        return await self._client.list_files(self._task, path, self._attempt_id)

    def read(self, path: str, offset: int) -> AsyncIterator[file_stream.Piece]:
        return self._client.read_file(self._task, path, offset=offset, attempt_id=self._attempt_id)


def _task_of(task_or_job: str) -> str:
    return task_or_job if is_task_id(task_or_job) else task_id(task_or_job, 0)
