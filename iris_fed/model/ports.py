"""Small protocols by which rooms on the same floor meet; `server` wires them together."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Protocol

from iris_fed.model.federation import Admission, PeerShape, SentHandle, SyncAnswer, SyncRequest
from iris_fed.model.files import ExecResult, FileChunk, FileListing
from iris_fed.model.jobs import JobEvent
from iris_fed.model.logs import LogBatch, LogRequest
from iris_fed.model.resources import BackendSummary
from iris_fed.model.spec import JobSpec, Submission


class PeerRefused(Exception):
    """The peer itself answered no. `code` is Connect's word, `message` the peer's sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class PeerUnreachable(Exception):
    """No answer that tells what became of the request. `arrived` False = it is certain that nothing
    reached the peer; `answered` = the peer did speak, of a failure of its own."""

    def __init__(self, message: str, arrived: bool = True, answered: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.arrived = arrived
        self.answered = answered


class PeerClient(Protocol):
    """The way to one peer. Every call is bounded by its own deadline, and raises PeerRefused or
    PeerUnreachable."""

    async def list_backends(self) -> tuple[BackendSummary, ...]: ...

    async def deliver(self, submission: Submission) -> str:
        """Hand a job off; returns the id under which the peer runs it."""
        ...

    async def terminate(self, job_id: str, nonce: str) -> None: ...

    async def sync(self, request: SyncRequest) -> SyncAnswer: ...

    def read_logs(self, request: LogRequest) -> AsyncIterator[LogBatch]: ...

    async def list_events(self, job_id: str, nonce: str) -> tuple[JobEvent, ...]: ...

    async def exec(self, task_id: str, argv: Sequence[str], timeout_s: int) -> ExecResult: ...

    async def list_files(self, task_id: str, attempt: int | None, path: str) -> FileListing: ...

    def read_file(self, task_id: str, attempt: int | None, path: str, offset: int) -> AsyncIterator[FileChunk]: ...

    async def check_admission(self, submitting_user: str) -> Admission: ...

    async def close(self) -> None: ...


class Handoffs(Protocol):
    """The way out of this cluster, as the submit, cancel and log use cases see it."""

    def shapes(self) -> tuple[PeerShape, ...]:
        """What each declared peer can run, as last heard."""
        ...

    async def await_first_contact(self, peers: tuple[str, ...]) -> None:
        """Give peers that were never heard of a short, bounded time to answer."""
        ...

    def new_handle(self, job_id: str, peer: str, submission: Submission, owner: str, submitter: str) -> SentHandle:
        """A handle for a new incarnation, not stored yet. Raises InvalidArgument when the folded
        name is too long."""
        ...

    async def deliver_now(self, peer: str, nonce: str) -> None:
        """Try the first delivery of a stored handle at once, bounded by a few seconds. Does not
        raise: what failed is tried again later."""
        ...

    def wake(self, peer: str) -> None:
        """There is something to send to this peer."""
        ...

    def cancel_child(self, peer: str, job_id: str, nonce: str) -> None:
        """Tell the peer to end a child (named as here) of the incarnation `nonce`."""
        ...

    def client(self, peer: str) -> PeerClient:
        """The way to a declared peer, to reach into jobs that it runs for us. Raises NotFound."""
        ...


class LocalCluster(Protocol):
    """This cluster's own backends and control loop, as federation sees them."""

    def local_backends(self) -> tuple[BackendSummary, ...] | None:
        """The shapes of the backends here; None = not known yet."""
        ...

    def wake(self) -> None:
        """There is something for the control loop to look at."""
        ...

    async def forget(self, attempt_uids: Iterable[str]) -> None:
        """Remove what attempts of jobs that are no more left behind."""
        ...

    def refusals(self, spec: JobSpec) -> tuple[str, ...]:
        """Wire names of what the job asks for that no backend here honours."""
        ...
