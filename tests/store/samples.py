"""Jobs and handles to put into a database."""

from dataclasses import replace
from typing import Any

from iris_fed.decide import lifecycle
from iris_fed.decide.newjob import handed_to, new_job, received_from
from iris_fed.model.federation import ReceivedHandle, SentHandle
from iris_fed.model.jobs import Job, JobEvent
from iris_fed.model.observed import Running
from iris_fed.model.spec import JobSpec, Submission
from iris_fed.model.states import ReceivedState
from iris_fed.store.commit import commit
from iris_fed.store.db import Tx
from iris_fed.store.handles import insert_received, insert_sent
from iris_fed.store.jobs import insert_job, load_draft


class Noon:
    """A clock that stands still."""

    def now_ms(self) -> int:
        return 1_000


NOON = Noon()


def local_job(job_id: str = "/a/x", replicas: int = 1, **changes: Any) -> Job:
    spec = JobSpec(("true",), replicas=replicas)
    user = job_id.split("/")[1]
    return replace(new_job(Submission(job_id, spec), job_id, user, f"{user}@lab", 1_000), **changes)


def add_local(tx: Tx, job_id: str = "/a/x", replicas: int = 1, **changes: Any) -> Job:
    return insert_job(tx, local_job(job_id, replicas, **changes), [JobEvent(0, 1_000, "job.submitted", "submitted")])


def add_received(tx: Tx, job_id: str = "/a/hub.x", replicas: int = 1, nonce: str = "n1", requester: str = "hub") -> Job:
    job = insert_job(tx, received_from(local_job(job_id, replicas), requester, nonce))
    insert_received(
        tx,
        ReceivedHandle(
            nonce=nonce, requester=requester, job_id=job_id, state=ReceivedState.ADMITTED, owner="a", created_ms=1_000
        ),
    )
    return job


def sent_handle(job_id: str = "/a/y", nonce: str = "s1", peer: str = "moon", **changes: Any) -> SentHandle:
    remote = job_id.replace("/a/", "/a/lab.")
    handle = SentHandle(
        nonce=nonce, peer=peer, job_id=job_id, remote_job_id=remote, owner="a", submitting_user="a@lab",
        created_ms=1_000, expires_ms=90_000,
    )  # fmt: skip
    return replace(handle, **changes)


def add_sent(tx: Tx, job_id: str = "/a/y", nonce: str = "s1", peer: str = "moon", **changes: Any) -> Job:
    job = insert_job(tx, handed_to(local_job(job_id), peer, nonce))
    insert_sent(tx, sent_handle(job_id, nonce, peer, **changes))
    return job


def start(tx: Tx, job: Job, index: int = 0, uid: str = "u1") -> Job:
    """Place a task of the job and see it run."""
    draft = load_draft(tx, job, {index})
    attempt = lifecycle.assign(draft, index, uid, "local", "node-1", 2_000)
    lifecycle.on_running(draft, (index, attempt.number), Running(uid, 2_000, "node-1"), 2_000)
    commit(tx, draft)
    return draft.job
