"""What other clusters may do here: hand a job over, cancel it, and learn what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from iris_fed.auth.identity import Identity
from iris_fed.decide import admission, lifecycle
from iris_fed.decide.admission import Replay, Trust
from iris_fed.decide.bands import check_received_band
from iris_fed.decide.existing import Existing
from iris_fed.decide.newjob import new_job, received_from
from iris_fed.decide.routing import Nowhere, choose_route
from iris_fed.errors import (
    Aborted,
    InvalidArgument,
    IrisFedError,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)
from iris_fed.model.federation import Admission, ReceivedHandle
from iris_fed.model.ids import is_task_id, parse_job_id
from iris_fed.model.jobs import Job, JobEvent
from iris_fed.model.ports import LocalCluster
from iris_fed.model.spec import Handoff, Submission
from iris_fed.model.states import ReceivedState
from iris_fed.store.bundles import BundleStore, has_used_bundle, note_use
from iris_fed.store.changelog import touch
from iris_fed.store.commit import commit
from iris_fed.store.db import Tx
from iris_fed.store.handles import count_fences, insert_received, received_by_nonce, supersede_received
from iris_fed.store.jobs import delete_job, insert_job, job_by_id, load_draft
from iris_fed.store.runtime import Runtime
from iris_fed.store.tree import change_unfinished_below, unfinished_below
from iris_fed.telemetry import get_logger

MAX_FENCES = 10_000
"""Of one cluster, for jobs that never arrived; they go with time."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Admitted:
    """The id under which it runs here, and the attempts of the job that gave way, whose files may go. `fresh`: it
    was not here before."""

    job_id: str
    replaced_attempts: tuple[str, ...] = ()
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class _MustStop:
    """RECREATE over an unfinished job: it was cancelled; the parent asks again."""

    job: Job


class Inbound:
    """`trust` by requester name; a requester that is not in it never gets here."""

    def __init__(self, runtime: Runtime, local: LocalCluster, bundles: BundleStore, trust: Mapping[str, Trust]) -> None:
        self._runtime = runtime
        self._local = local
        self._bundles = bundles
        self._trust = trust

    async def admit(self, caller: Identity, submission: Submission) -> str:
        """Take a job over, at most once per nonce; returns the id under which it runs here.

        Raises the codes of design section 6, "Receive at the peer".
        """
        handoff = submission.handoff
        if handoff is None:
            raise InvalidArgument("a cluster can only hand jobs off, under its own name", "federation")
        trust = self._authorise(caller, handoff.requester)
        meters = self._runtime.meters
        try:
            admitted = await self._take(submission, handoff, trust)
        except IrisFedError as error:
            meters.declined(handoff.requester, error.code.value)
            raise
        if admitted.fresh:
            meters.admitted(handoff.requester)
        else:
            meters.duplicate_suppressed(handoff.requester)
        await self._local.forget(admitted.replaced_attempts)
        return admitted.job_id

    async def _take(self, submission: Submission, handoff: Handoff, trust: Trust) -> _Admitted:
        known = await self._runtime.db.read(lambda tx: received_by_nonce(tx, handoff.requester, handoff.nonce))
        if known is None:
            submission = await self._keep_bundle(submission, handoff, trust)
        now_ms = self._runtime.clock.now_ms()
        miss = self._nearest_miss(submission)
        outcome = await self._runtime.db.write(
            lambda tx: _admit(tx, submission, handoff, trust, self._runtime.database_id, miss, now_ms)
        )
        if isinstance(outcome, _MustStop):
            self._runtime.signals.publish([outcome.job.uid])
            self._local.wake()
            raise Aborted(f"{outcome.job.job_id} is still stopping; try again in a moment")
        self._runtime.tracing.remember(outcome.job_id)
        log.info("handoff.admitted", requester=handoff.requester, job=outcome.job_id, nonce=handoff.nonce)
        self._local.wake()
        return outcome

    async def _keep_bundle(self, submission: Submission, handoff: Handoff, trust: Trust) -> Submission:
        """The bundle's bytes are on disk before a job names them; nobody else's are kept."""
        bundle_id = submission.spec.bundle_id
        if not admission.submitter_allowed(handoff.submitting_user, trust.allowed_submitters):
            return submission
        if submission.bundle:
            bundle_id = await self._bundles.put(submission.bundle)
        elif bundle_id and not self._bundles.path(bundle_id).exists():
            raise InvalidArgument("this cluster does not have that bundle; send its bytes", "bundle_id")
        return replace(submission, spec=replace(submission.spec, bundle_id=bundle_id))

    async def cancel(self, caller: Identity, job_id: str, nonce: str) -> None:
        """Cancel one incarnation; one that never arrived is refused from now on (fenced).

        Without a nonce (an Iris parent) the current incarnation is meant; NotFound if there is none.
        """
        parse_job_id(job_id)
        if not caller.requester:
            raise PermissionDenied("only a trusted cluster may name a handoff")
        now_ms = self._runtime.clock.now_ms()
        job = await self._runtime.db.write(lambda tx: _cancel(tx, caller.requester, job_id, nonce, now_ms))
        if job is not None:
            self._runtime.signals.publish([job.uid])
            self._local.wake()

    async def check_admission(self, caller: Identity, submitter: str) -> Admission:
        """Would this submitter's jobs be taken from the caller's cluster?"""
        trust = self._authorise(caller, caller.requester)
        admitted = admission.submitter_allowed(submitter, trust.allowed_submitters)
        reason = "" if admitted else f"auth.federation_peers.{caller.requester}.allowed_submitters does not list them"
        return Admission(self._runtime.cluster, admitted, reason)

    async def may_read(self, caller: Identity, job_id: str) -> None:
        """Raises NotFound unless the caller's cluster handed that job off: others do not exist for it."""
        job = await self._runtime.db.read(lambda tx: job_by_id(tx, job_id))
        if job is None or job.requester != caller.requester:
            raise NotFound(f"there is no job {job_id} of {caller.requester} here")

    def _authorise(self, caller: Identity, requester: str) -> Trust:
        trust = self._trust.get(requester)
        if not caller.requester or caller.requester != requester or trust is None:
            log.warning("handoff.forged", caller=caller.principal, claimed=requester)
            raise PermissionDenied("federation.requester_id: only a trusted cluster may hand off, under its own name")
        return trust

    def _nearest_miss(self, submission: Submission) -> Exception | None:
        """Why this cluster itself cannot host it; None = it can. Never a peer: it is not handed on."""
        backends = self._local.local_backends()
        if backends is None:
            return Unavailable("the shape of this cluster's backends is not known yet; try again")
        spec = submission.spec
        if spec.cluster_pin not in (None, self._runtime.cluster):
            return InvalidArgument("a handed-off job cannot be pinned to another cluster", "constraints")
        stripped = replace(spec, constraints=tuple(c for c in spec.constraints if c.key != "cluster"))
        route = choose_route(stripped, backends, ())
        if isinstance(route, Nowhere):
            return admission.unhostable(route.error)
        fields = self._local.refusals(spec)
        return InvalidArgument("this cluster cannot honour it", ", ".join(fields)) if fields else None


def _admit(
    tx: Tx,
    submission: Submission,
    handoff: Handoff,
    trust: Trust,
    database_id: str,
    miss: Exception | None,
    now_ms: int,
) -> _Admitted | _MustStop:
    known = received_by_nonce(tx, handoff.requester, handoff.nonce)
    if admission.check_replay(handoff, known) is Replay.ACK:
        assert known is not None
        # Its end may be pruned here: the feed still has the tombstone to repeat.
        touch(tx, known.requester, known.nonce, known.job_id)
        return _Admitted(known.job_id)
    admission.check_handoff(submission, handoff, trust, database_id, now_ms)
    if not parse_job_id(submission.name, "name").is_root:
        raise InvalidArgument("only a root job can be handed off", "name")
    if submission.band is not None:
        check_received_band(submission.band, trust.strongest_band, trust.requester)
    if miss is not None:
        raise miss
    owner = handoff.owner or parse_job_id(submission.name, "name").user
    bundle_id = submission.spec.bundle_id
    if bundle_id and not submission.bundle and not has_used_bundle(tx, bundle_id, handoff.requester, owner):
        raise InvalidArgument("that owner has no such bundle on this cluster; send its bytes", "bundle_id")
    replaced: tuple[str, ...] = ()
    old = job_by_id(tx, submission.name)
    if old is not None:
        match admission.check_taken(submission, handoff, old):
            case Existing.KEEP:
                touch(tx, old.requester, old.nonce, old.job_id)
                return _Admitted(old.job_id)
            case Existing.STOP:
                who = f"{handoff.requester}, which submits it again"
                _cancel_tree(tx, old, who, now_ms)
                return _MustStop(old)
            case _ if unfinished_below(tx, old.uid):
                raise Aborted(f"{old.job_id} has ended, but its children are still stopping; try again in a moment")
            case _:
                supersede_received(tx, old, now_ms)
                replaced = tuple(delete_job(tx, old.uid))
    _take_over(tx, submission, handoff, now_ms)
    return _Admitted(submission.name, replaced, fresh=True)


def _take_over(tx: Tx, submission: Submission, handoff: Handoff, now_ms: int) -> None:
    owner = handoff.owner or parse_job_id(submission.name, "name").user
    job = received_from(
        new_job(submission, submission.name, owner, handoff.submitting_user, now_ms), handoff.requester, handoff.nonce
    )
    words = f"handed over by {handoff.requester} for {handoff.submitting_user}"
    insert_job(tx, job, [JobEvent(0, now_ms, "job.received", words)])
    if job.bundle_id:
        note_use(tx, job.bundle_id, len(submission.bundle), now_ms)
    insert_received(
        tx,
        ReceivedHandle(
            nonce=handoff.nonce,
            requester=handoff.requester,
            job_id=submission.name,
            state=ReceivedState.ADMITTED,
            owner=owner,
            submitting_user=handoff.submitting_user,
            created_ms=now_ms,
        ),
    )


def _cancel(tx: Tx, requester: str, job_id: str, nonce: str, now_ms: int) -> Job | None:
    job = job_by_id(tx, job_id)
    mine = job is not None and job.requester == requester
    if mine and job is not None and nonce in ("", job.nonce):
        _cancel_tree(tx, job, requester, now_ms)
        touch(tx, requester, job.nonce, job_id)
        return job
    if not nonce or is_task_id(job_id):
        raise NotFound(f"there is no job {job_id} of {requester} here")
    if not parse_job_id(job_id).is_root:
        raise NotFound(f"there is no child job {job_id} of that incarnation here")
    known = received_by_nonce(tx, requester, nonce)
    if known is None:
        if count_fences(tx, requester, MAX_FENCES) >= MAX_FENCES:
            raise ResourceExhausted(f"{MAX_FENCES} jobs that never arrived here are cancelled already")
        insert_received(
            tx,
            ReceivedHandle(
                nonce=nonce,
                requester=requester,
                job_id=job_id,
                state=ReceivedState.FENCED,
                created_ms=now_ms,
                closed_ms=now_ms,
            ),
        )
    else:
        touch(tx, requester, nonce, known.job_id)
    return None


def _cancel_tree(tx: Tx, job: Job, who: str, now_ms: int) -> None:
    draft = load_draft(tx, job)
    lifecycle.request_cancel(draft, who, now_ms)
    commit(tx, draft)
    change_unfinished_below(tx, job.uid, lambda child: lifecycle.request_cancel(child, who, now_ms))
