"""Reaching into a task: a command in its place, files of its work directory; here or on its peer."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from iris_fed.auth.identity import Identity, Role
from iris_fed.backends.base import Backend, BackendUnavailable, NotRunning
from iris_fed.decide.mirror import remote_id_of
from iris_fed.errors import FailedPrecondition, InvalidArgument, IrisFedError, NotFound, PermissionDenied, Unavailable
from iris_fed.model.files import ExecResult, FileChunk, FileListing, NoSuchFile
from iris_fed.model.ids import parse_task_id, task_id
from iris_fed.model.jobs import Attempt, Job
from iris_fed.model.ports import Handoffs, PeerRefused, PeerUnreachable
from iris_fed.store.db import Tx
from iris_fed.store.handles import sent_by_nonce
from iris_fed.store.jobs import attempts_of, job_by_id
from iris_fed.store.runtime import Runtime

MAX_EXEC_S = 600
DEFAULT_EXEC_S = 60
MAX_EXEC_OUTPUT_BYTES = 1024 * 1024
"""Of each of the two outputs."""
MAX_ENTRIES = 10_000
CHUNK_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class _Here:
    attempt: Attempt
    backend: Backend


@dataclass(frozen=True, slots=True)
class _There:
    """`task_id` is the peer's name of the task, `asked` ours."""

    peer: str
    task_id: str
    asked: str


class Reach:
    """Raises InvalidArgument, NotFound, PermissionDenied, FailedPrecondition, Unavailable."""

    def __init__(self, runtime: Runtime, backends: Mapping[str, Backend], handoffs: Handoffs) -> None:
        self._runtime = runtime
        self._backends = backends
        self._handoffs = handoffs

    async def exec(self, caller: Identity, task: str, argv: Sequence[str], timeout_s: int) -> ExecResult:
        """Only for who may change the job. `timeout_s` 0 = DEFAULT_EXEC_S."""
        if not argv:
            raise InvalidArgument("a command is needed", "command")
        if not 0 <= timeout_s <= MAX_EXEC_S:
            raise InvalidArgument(f"must be between 0 and {MAX_EXEC_S}, not {timeout_s}", "timeout_seconds")
        timeout_s = timeout_s or DEFAULT_EXEC_S
        where = await self._locate(caller, task, None)
        try:
            if isinstance(where, _There):
                return await self._handoffs.client(where.peer).exec(where.task_id, argv, timeout_s)
            return await where.backend.exec(where.attempt.attempt_uid, argv, timeout_s, MAX_EXEC_OUTPUT_BYTES)
        except NotRunning:
            raise FailedPrecondition(f"{task} does not run, so nothing can be run in it") from None
        except (BackendUnavailable, PeerUnreachable, PeerRefused) as error:
            raise _translated(error, where) from error

    async def list_files(self, caller: Identity, task: str, attempt: int | None, path: str) -> FileListing:
        """`path` '' = the work directory."""
        where = await self._locate(caller, task, attempt)
        try:
            if isinstance(where, _There):
                return await self._handoffs.client(where.peer).list_files(where.task_id, attempt, path)
            return await where.backend.list_files(where.attempt.attempt_uid, path, MAX_ENTRIES)
        except NoSuchFile as error:
            raise NotFound(f"{task}: {error}") from None
        except (BackendUnavailable, PeerUnreachable, PeerRefused) as error:
            raise _translated(error, where) from error

    async def read_file(
        self, caller: Identity, task: str, attempt: int | None, path: str, offset: int
    ) -> AsyncIterator[FileChunk]:
        """From `offset` to what is the end now, should it still grow; at least one chunk, which tells the size."""
        where = await self._locate(caller, task, attempt)
        try:
            if isinstance(where, _There):
                async for chunk in self._handoffs.client(where.peer).read_file(where.task_id, attempt, path, offset):
                    yield chunk
                return
            chunk = await where.backend.read_file(where.attempt.attempt_uid, path, offset, CHUNK_BYTES)
            end = chunk.size
            yield chunk
            while chunk.data and (offset := offset + len(chunk.data)) < end:
                most = min(CHUNK_BYTES, end - offset)
                chunk = await where.backend.read_file(where.attempt.attempt_uid, path, offset, most)
                if chunk.data:
                    yield chunk
        except NoSuchFile as error:
            raise NotFound(f"{task}: {error}") from None
        except (BackendUnavailable, PeerUnreachable, PeerRefused) as error:
            raise _translated(error, where) from error

    async def _locate(self, caller: Identity, task: str, number: int | None) -> _Here | _There:
        job_id, index = parse_task_id(task)

        if not caller.may_reach(str(job_id)):
            raise PermissionDenied(f"a task reaches only into its own job {caller.subtree} and what is below it")

        def find(tx: Tx) -> tuple[Job, str, list[Attempt]]:
            job = job_by_id(tx, str(job_id))
            if job is None or not _may_see(caller, job):
                raise NotFound(f"there is no task {task}")
            handle = sent_by_nonce(tx, job.cluster, job.nonce) if job.cluster else None
            return job, remote_id_of(handle, job.job_id) if handle else "", attempts_of(tx, job.uid, [index])

        job, remote_id, attempts = await self._runtime.db.read(find)
        if not _may_change(caller, job):
            raise PermissionDenied(f"{caller.principal} may not reach into {task}: it is not theirs")
        if job.cluster:
            return _There(job.cluster, task_id(remote_id, index), task)
        wanted = [attempt for attempt in attempts if number is None or attempt.number == number]
        if not wanted:
            raise NotFound(f"{task} has no {'attempt yet' if number is None else f'attempt {number}'}")
        backend = self._backends.get(wanted[-1].backend_id)
        if backend is None:
            raise NotFound(f"backend {wanted[-1].backend_id}, which ran {task}, is not configured any more")
        return _Here(wanted[-1], backend)


def _may_see(caller: Identity, job: Job) -> bool:
    return caller.role is not Role.FEDERATION_PEER or job.requester == caller.requester


def _may_change(caller: Identity, job: Job) -> bool:
    """A task was asked before what it may reach, a peer what it may see."""
    if caller.role in (Role.ADMIN, Role.FEDERATION_PEER, Role.JOB):
        return True
    return not job.requester and job.user == caller.user


def _translated(error: Exception, where: _Here | _There) -> IrisFedError:
    if isinstance(where, _Here):
        return Unavailable(f"backend {where.backend.backend_id} cannot be reached: {error}")
    if isinstance(error, PeerUnreachable):
        return Unavailable(f"{where.peer}, which runs the job, cannot be reached: {error.message}")
    assert isinstance(error, PeerRefused)
    words = f"{where.peer}: {error.message.replace(where.task_id, where.asked)}"
    match error.code:
        case "not_found":
            return NotFound(words)
        case "invalid_argument":
            return InvalidArgument(words)
        case "unavailable":
            return Unavailable(words)
        case _:
            return FailedPrecondition(words)
