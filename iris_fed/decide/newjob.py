"""The first state of a job."""

from dataclasses import replace

from iris_fed.model.constraints import CLUSTER_KEY
from iris_fed.model.jobs import Job
from iris_fed.model.spec import Submission
from iris_fed.model.states import Band, PeerStatus


def new_job(submission: Submission, job_id: str, user: str, submitter: str, now_ms: int) -> Job:
    """A job that is to run here. `submitter` is the principal behind it, `user` its owner."""
    spec = submission.spec
    deadline = None if spec.scheduling_timeout_ms is None else now_ms + spec.scheduling_timeout_ms
    return Job(
        job_id=job_id,
        user=user,
        submitting_user=submitter,
        spec=spec,
        band=Band.INTERACTIVE if submission.band is None else submission.band,
        submitted_ms=now_ms,
        task_count=spec.replicas,
        demand=spec.demand,
        queued_tasks=spec.replicas,
        scheduling_deadline_ms=deadline,
        bundle_id=spec.bundle_id,
    )


def handed_to(job: Job, peer: str, nonce: str) -> Job:
    """The same job, to run on a peer."""
    return replace(
        job,
        cluster=peer,
        nonce=nonce,
        peer_status=PeerStatus.PENDING_SCHEDULING,
        pending_reason=f"being handed to {peer}",
        scheduling_deadline_ms=None,
        queued_tasks=0,
    )


def received_from(job: Job, requester: str, nonce: str) -> Job:
    """The same job, as it was handed to us. A pin to us has done its work."""
    constraints = tuple(c for c in job.spec.constraints if c.key != CLUSTER_KEY)
    return replace(job, spec=replace(job.spec, constraints=constraints), requester=requester, nonce=nonce)


def child_of(parent: Job, job: Job, *, inherits_band: bool) -> Job:
    """The same job below `parent`: it inherits the environment and, unless told otherwise, the band,
    and belongs to whoever the parent belongs to."""
    spec = replace(
        job.spec,
        env={**parent.spec.env, **job.spec.env},
        secrets={**parent.spec.secrets, **job.spec.secrets},
    )
    return replace(
        job,
        spec=spec,
        parent_uid=parent.uid,
        user=parent.user,
        submitting_user=parent.submitting_user,
        band=parent.band if inherits_band else job.band,
        requester=parent.requester,
        nonce=parent.nonce,
    )
