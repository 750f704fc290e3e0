"""What a delivery to a peer says."""

from dataclasses import replace

from iris_fed.model.constraints import CLUSTER_KEY
from iris_fed.model.federation import SentHandle
from iris_fed.model.jobs import Job
from iris_fed.model.spec import Handoff, Submission


def delivery_of(handle: SentHandle, job: Job, cluster: str) -> Submission:
    """LaunchJob with `federation`: the whole job under its remote id, without the cluster pin.

    It is meant for the peer's database as last heard ('' = a peer without our extensions).
    """
    constraints = tuple(c for c in job.spec.constraints if c.key != CLUSTER_KEY)
    return Submission(
        name=handle.remote_job_id,
        spec=replace(job.spec, constraints=constraints),
        policy=handle.policy,
        band=job.band,
        handoff=Handoff(
            requester=cluster,
            owner=handle.owner,
            submitting_user=handle.submitting_user,
            nonce=handle.nonce,
            database_id=handle.database_id,
            expires_ms=handle.expires_ms,
        ),
    )
