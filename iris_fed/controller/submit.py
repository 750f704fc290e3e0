"""Submitting a job: name it, find its place, write it down, and hand it off if it runs elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import anyio

from iris_fed.auth.identity import Identity, Role
from iris_fed.controller.cancel import Canceller
from iris_fed.controller.loop import ControlLoop
from iris_fed.decide.bands import check_band
from iris_fed.decide.existing import Existing, choose_existing
from iris_fed.decide.newjob import child_of, handed_to, new_job
from iris_fed.decide.routing import Here, NotYet, Nowhere, Route, ToPeer, choose_route
from iris_fed.errors import (
    Aborted,
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    IrisFedError,
    PermissionDenied,
)
from iris_fed.model.federation import SentHandle
from iris_fed.model.ids import JobId, parse_job_id
from iris_fed.model.jobs import Job, JobEvent
from iris_fed.model.ports import Handoffs
from iris_fed.model.spec import JobSpec, Submission
from iris_fed.model.states import TERMINAL_JOB_STATES, Band, JobState
from iris_fed.store.bundles import BundleStore, has_used_bundle, note_use
from iris_fed.store.db import Tx
from iris_fed.store.handles import insert_sent
from iris_fed.store.jobs import delete_job, insert_job, job_by_id, job_by_uid, with_secrets
from iris_fed.store.runtime import Runtime
from iris_fed.store.tree import unfinished_below
from iris_fed.telemetry import get_logger

RECREATE_WAIT_S = 15.0
"""How long a RECREATE waits for the old incarnation's end before it answers ABORTED."""

NO_BUNDLE = "you have no such bundle on this cluster; send its bytes in bundle_blob"

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Kept:
    """The answer is an existing job."""

    job_id: str


@dataclass(frozen=True, slots=True)
class _MustStop:
    """An unfinished job is in the way and is to be cancelled first."""

    job: Job


@dataclass(frozen=True, slots=True)
class _Created:
    job: Job
    replaced_attempts: tuple[str, ...]


class Submitter:
    """LaunchJob of this cluster's own users."""

    def __init__(
        self,
        runtime: Runtime,
        loop: ControlLoop,
        handoffs: Handoffs,
        canceller: Canceller,
        bundles: BundleStore,
        band_users: Mapping[Band, Sequence[str]],
        reserved_names: frozenset[str],
    ) -> None:
        self._runtime = runtime
        self._loop = loop
        self._handoffs = handoffs
        self._canceller = canceller
        self._bundles = bundles
        self._band_users = band_users
        self._reserved = reserved_names

    async def submit(self, caller: Identity, submission: Submission) -> str:
        """Returns the id under which the job really runs here, once it is durable.

        Raises InvalidArgument, PermissionDenied, AlreadyExists, FailedPrecondition (no place can
        host it) or Aborted (its former incarnation is still stopping).
        """
        name = self._resolve_name(caller, submission.name)
        if submission.band is not None:
            check_band(submission.band, caller.principal, is_admin=caller.role is Role.ADMIN, users=self._band_users)
        submission = await self._keep_bundle(submission)
        peer = await self._choose_peer(submission.spec, name)
        if peer is None:
            self._refuse_dishonoured(submission.spec)
        deadline = anyio.current_time() + RECREATE_WAIT_S
        while True:
            outcome = await self._try_create(caller, submission, name, peer)
            match outcome:
                case _Kept(job_id):
                    return job_id
                case _MustStop(job):
                    await self._stop_and_wait(caller, job, deadline)
                case _Created(job, replaced):
                    await self._start(job, replaced)
                    return job.job_id

    def _resolve_name(self, caller: Identity, name: str) -> JobId:
        """A bare name is a root job of a person, and a child of the job that a task belongs to."""
        home = caller.subtree or f"/{caller.user}"
        job_id = parse_job_id(name if name.startswith("/") else f"{home}/{name}", "name")
        if caller.role is Role.JOB and not str(job_id).startswith(caller.subtree + "/"):
            raise PermissionDenied(f"name: a task may only submit below its own job {caller.subtree}")
        if caller.role not in (Role.ADMIN, Role.JOB) and job_id.user != caller.user:
            raise PermissionDenied(f"name: {caller.principal} may only submit under /{caller.user}/")
        first, dot, _ = job_id.parts[1].partition(".")
        if dot and first in self._reserved and job_id.is_root:
            raise InvalidArgument(f"names that begin with {first + '.'!r} are kept for jobs of cluster {first}", "name")
        return job_id

    async def _keep_bundle(self, submission: Submission) -> Submission:
        """The bundle's bytes are on disk before a job names them."""
        spec = submission.spec
        if submission.bundle:
            bundle_id = await self._bundles.put(submission.bundle)
            if spec.bundle_id not in ("", bundle_id):
                raise InvalidArgument("does not match the SHA-256 of bundle_blob", "bundle_id")
            return replace(submission, spec=replace(spec, bundle_id=bundle_id))
        if spec.bundle_id and not self._bundles.path(spec.bundle_id).exists():
            raise InvalidArgument(NO_BUNDLE, "bundle_id")
        return submission

    async def _choose_peer(self, spec: JobSpec, name: JobId) -> str | None:
        """The peer it goes to, None = it stays here. Raises what explains that nobody can host it."""
        route = self._route(spec, name)
        if isinstance(route, NotYet):
            await self._handoffs.await_first_contact(route.peers)
            route = self._route(spec, name)
        match route:
            case Here():
                return None
            case ToPeer(peer):
                return peer
            case Nowhere(error):
                raise error
            case NotYet(peers):
                raise FailedPrecondition(
                    f"no cluster that was heard of can host this job, and {', '.join(peers)} has not answered yet: "
                    "try again when `iris-fed peer list` shows it reachable"
                )

    def _route(self, spec: JobSpec, name: JobId) -> Route:
        return choose_route(spec, self._loop.local_backends(), self._handoffs.shapes(), is_root=name.is_root)

    def _refuse_dishonoured(self, spec: JobSpec) -> None:
        """A field that no backend here honours is refused by name, never run weaker than asked."""
        fields = self._loop.refusals(spec)
        if fields:
            raise InvalidArgument("this cluster cannot honour it; leave it out", ", ".join(fields))

    async def _try_create(
        self, caller: Identity, submission: Submission, name: JobId, peer: str | None
    ) -> _Kept | _MustStop | _Created:
        now_ms = self._runtime.clock.now_ms()
        job = new_job(submission, str(name), name.user, caller.principal, now_ms)
        handle: SentHandle | None = None
        if peer is not None:
            handle = self._handoffs.new_handle(str(name), peer, submission, name.user, caller.principal)
            job = handed_to(job, peer, handle.nonce)
        return await self._runtime.db.write(lambda tx: _create(tx, caller, submission, name, job, handle))

    async def _stop_and_wait(self, caller: Identity, job: Job, deadline: float) -> None:
        async with self._runtime.signals.watch(job.uid) as news:
            await self._canceller.cancel_job(job.job_id, f"{caller.principal}, who submits it again")
            with anyio.move_on_at(deadline):
                while True:
                    news.clear()
                    now = await self._runtime.db.read(lambda tx: job_by_uid(tx, job.uid))
                    if now is None or now.state in TERMINAL_JOB_STATES:
                        return
                    await news.wait()
        raise Aborted(f"{job.job_id} is still stopping; try again in a moment")

    async def _start(self, job: Job, replaced_attempts: tuple[str, ...]) -> None:
        self._runtime.tracing.remember(job.job_id)
        log.info("job.submitted", job=job.job_id, cluster=job.cluster or self._runtime.cluster)
        if job.cluster:
            await self._handoffs.deliver_now(job.cluster, job.nonce)
        else:
            self._loop.wake()
        await self._loop.forget(replaced_attempts)


def _create(
    tx: Tx, caller: Identity, submission: Submission, name: JobId, job: Job, handle: SentHandle | None
) -> _Kept | _MustStop | _Created:
    """In one transaction: the name is free or becomes so, and the job (with its handle) takes it."""
    replaced: list[str] = []
    if name.parent is not None:
        parent = with_secrets(tx, _open_parent(tx, caller, str(name.parent)))
        job = child_of(parent, job, inherits_band=submission.band is None)
    _check_bundle(tx, caller, submission, job)
    old = job_by_id(tx, job.job_id)
    if old is not None:
        if old.requester and not job.requester:
            raise AlreadyExists(f"{job.job_id} belongs to cluster {old.requester}")
        match choose_existing(submission.policy, old.state):
            case Existing.KEEP:
                return _Kept(old.job_id)
            case Existing.STOP:
                return _MustStop(old)
            case Existing.REFUSE:
                raise _taken(old)
            case Existing.REPLACE if not old.cluster and unfinished_below(tx, old.uid):
                raise Aborted(f"{old.job_id} has ended, but its children are still stopping; try again in a moment")
            case Existing.REPLACE:
                replaced = delete_job(tx, old.uid)
    where = f"to be handed to {job.cluster}" if job.cluster else "queued here"
    event = JobEvent(0, job.submitted_ms, "job.submitted", f"submitted by {job.submitting_user}, {where}")
    stored = insert_job(tx, job, [event])
    if job.bundle_id:
        note_use(tx, job.bundle_id, len(submission.bundle), job.submitted_ms)
    if handle is not None:
        insert_sent(tx, handle)
    return _Created(stored, tuple(replaced))


def _open_parent(tx: Tx, caller: Identity, parent_id: str) -> Job:
    """Raises FailedPrecondition unless the parent runs here, is not over, and is the caller's: a child takes over
    what its parent has, secrets and account too. A job that another cluster handed over is no local user's, whatever
    its name."""
    parent = job_by_id(tx, parent_id)
    if parent is not None and caller.role not in (Role.ADMIN, Role.JOB):
        parent = parent if (parent.requester, parent.user) == ("", caller.user) else None
    if parent is None:
        raise FailedPrecondition(f"name: there is no job {parent_id} to be a child of")
    if parent.cluster:
        raise FailedPrecondition(f"name: {parent_id} runs on {parent.cluster}; its children are submitted there")
    if parent.finished_ms is not None or parent.stop_state is not None:
        raise FailedPrecondition(f"name: {parent_id} has ended or is stopping, so it gets no further children")
    return parent


def _check_bundle(tx: Tx, caller: Identity, submission: Submission, job: Job) -> None:
    """A bundle that is only named must have been used by the same owner: its id alone opens it to nobody else."""
    bundle_id = submission.spec.bundle_id
    if not bundle_id or submission.bundle or caller.role is Role.ADMIN:
        return
    if not has_used_bundle(tx, bundle_id, job.requester, job.user):
        raise InvalidArgument(NO_BUNDLE, "bundle_id")


def _taken(old: Job) -> IrisFedError:
    state = "unfinished" if old.state not in TERMINAL_JOB_STATES else JobState(old.state).value
    return AlreadyExists(f"{old.job_id} exists already ({state}); choose another name, or --if-exists keep or recreate")
