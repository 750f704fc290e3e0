"""The way to one peer, speaking the wire: implements `model.ports.PeerClient`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from connectrpc.code import Code
from connectrpc.errors import ConnectError
from pyqwest import Transport

from iris_fed.errors import InvalidArgument
from iris_fed.model.federation import Admission, SyncAnswer, SyncRequest
from iris_fed.model.files import ExecResult, FileChunk, FileListing
from iris_fed.model.jobs import JobEvent
from iris_fed.model.logs import LogBatch, LogRequest
from iris_fed.model.ports import PeerRefused, PeerUnreachable
from iris_fed.model.resources import BackendSummary
from iris_fed.model.spec import Submission
from iris_fed.rpc.connect_client import Channel
from iris_fed.rpc.credentials import Credentials
from iris_fed.rpc.foreign import answered_404
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.irisfed import cluster_pb2
from iris_fed.rpc.unreachable import never_left, why_unreachable
from iris_fed.rpc.wire.delivery import submission_to_wire
from iris_fed.rpc.wire.files import chunk_from_wire, exec_result_from_wire, listing_from_wire
from iris_fed.rpc.wire.logs import log_batch_from_wire, log_request_to_wire
from iris_fed.rpc.wire.places import admission_from_wire, backends_from_wire
from iris_fed.rpc.wire.reports import job_events_from_wire
from iris_fed.rpc.wire.sync import sync_answer_from_wire, sync_request_to_wire

MAX_ANSWER_WAIT_S = 5.0
"""Beyond what a long poll asks the peer to wait."""
MAX_DELIVERY_MS = 600_000
MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""Of one answer, or one message of a stream: what a peer says is held in memory."""
_TOO_LARGE = "message is larger than"
_UNSURE = frozenset({Code.UNKNOWN, Code.INTERNAL, Code.DEADLINE_EXCEEDED, Code.CANCELED, Code.DATA_LOSS})
"""The peer answered, but not that it did nothing."""

T = TypeVar("T")


class ConnectPeer:
    """`deadline_s` bounds every call but streams. `around`: further interceptors."""

    def __init__(
        self,
        address: str,
        credentials: Credentials,
        deadline_s: float,
        transport: Transport | None = None,
        around: Sequence[Any] = (),
    ) -> None:
        self._channel = Channel(
            address,
            credentials=credentials,
            deadline_s=deadline_s,
            transport=transport,
            around=around,
            most_bytes=MAX_ANSWER_BYTES,
        )

    async def list_backends(self) -> tuple[BackendSummary, ...]:
        answer = await _call(self._channel.controller.list_backends(Controller.ListBackendsRequest()))
        return _read(lambda: backends_from_wire(answer.backends))

    async def deliver(self, submission: Submission) -> str:
        """As long as its caller allows: a bundle takes its time."""
        message = submission_to_wire(submission)
        try:
            answer = await _call(self._channel.controller.launch_job(message, timeout_ms=MAX_DELIVERY_MS))
        except PeerRefused as refusal:
            if refusal.code == Code.RESOURCE_EXHAUSTED.value and refusal.message.startswith(_TOO_LARGE):
                # Said by the server's library before any handler sees it; it will not pass.
                words = f"it takes no request of {message.ByteSize()} bytes: {refusal.message}"
                raise PeerRefused(Code.OUT_OF_RANGE.value, words) from refusal
            raise
        if not answer.job_id:
            raise PeerUnreachable("it acknowledged a job without naming it", answered=True)
        return answer.job_id

    async def terminate(self, job_id: str, nonce: str) -> None:
        request = Controller.TerminateJobRequest(job_id=job_id, handoff_nonce=nonce)
        await _call(self._channel.controller.terminate_job(request))

    async def sync(self, request: SyncRequest) -> SyncAnswer:
        timeout_ms = int(request.wait_ms + MAX_ANSWER_WAIT_S * 1000)
        message = sync_request_to_wire(request)
        answer = await _call(self._channel.controller.federation_sync(message, timeout_ms=timeout_ms))
        return _read(lambda: sync_answer_from_wire(answer))

    async def read_logs(self, request: LogRequest) -> AsyncIterator[LogBatch]:
        stream = self._channel.streams.read_logs(log_request_to_wire(request))
        try:
            async for message in stream:
                yield _read(partial(log_batch_from_wire, message, request.job_id))
        except ConnectError as error:
            raise _offered(error, "it offers no logs to other clusters") from error

    async def list_events(self, job_id: str, nonce: str) -> tuple[JobEvent, ...]:
        request = cluster_pb2.ListJobEventsRequest(job_id=job_id, handoff_nonce=nonce)
        try:
            answer = await self._channel.cluster.list_job_events(request)
        except ConnectError as error:
            raise _offered(error, "it tells no events to other clusters") from error
        return job_events_from_wire(answer)

    async def exec(self, task_id: str, argv: Sequence[str], timeout_s: int) -> ExecResult:
        request = Controller.ExecInContainerRequest(task_id=task_id, command=argv, timeout_seconds=timeout_s)
        timeout_ms = int((timeout_s + MAX_ANSWER_WAIT_S) * 1000)
        return exec_result_from_wire(
            await _call(self._channel.controller.exec_in_container(request, timeout_ms=timeout_ms))
        )

    async def list_files(self, task_id: str, attempt: int | None, path: str) -> FileListing:
        request = cluster_pb2.ListFilesRequest(task_id=task_id, attempt_id=attempt, path=path)
        return listing_from_wire(await _call(self._channel.cluster.list_files(request)))

    async def read_file(self, task_id: str, attempt: int | None, path: str, offset: int) -> AsyncIterator[FileChunk]:
        request = cluster_pb2.ReadFileRequest(task_id=task_id, attempt_id=attempt, path=path, offset=offset)
        try:
            async for message in self._channel.streams.read_file(request):
                yield chunk_from_wire(message)
        except ConnectError as error:
            raise _offered(error, "it offers no files to other clusters") from error

    async def check_admission(self, submitting_user: str) -> Admission:
        request = cluster_pb2.CheckAdmissionRequest(submitting_user=submitting_user)
        answer = await _call(self._channel.cluster.check_admission(request))
        return _read(lambda: admission_from_wire(answer))

    async def close(self) -> None:
        await self._channel.close()


async def _call(call: Awaitable[T]) -> T:
    try:
        return await call
    except ConnectError as error:
        raise _translate(error) from error


def _read(convert: Callable[[], T]) -> T:
    """What an answer says. One that cannot be used is no loss of contact, so it is told as the peer's own no."""
    try:
        return convert()
    except InvalidArgument as error:
        raise PeerRefused("data_loss", f"its answer cannot be read: {error.message}") from error


def _offered(error: ConnectError, otherwise: str) -> PeerRefused | PeerUnreachable:
    """The same, for a method that an Iris controller does not have."""
    return PeerRefused("unimplemented", otherwise) if answered_404(error) else _translate(error)


def _translate(error: ConnectError) -> PeerRefused | PeerUnreachable:
    """What the peer itself said, or that it said nothing."""
    if error.__cause__ is not None:
        return PeerUnreachable(why_unreachable(error), arrived=not never_left(error))
    if error.code in _UNSURE:
        return PeerUnreachable(f"it failed ({error.code.value}): {error.message}", answered=True)
    return PeerRefused(error.code.value, error.message)
