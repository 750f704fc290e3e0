"""Cancelling a job, here or on its peer."""

from iris_fed.auth.identity import Identity, Role
from iris_fed.controller.loop import ControlLoop
from iris_fed.decide import handoff, lifecycle
from iris_fed.errors import NotFound, PermissionDenied
from iris_fed.model.ids import parse_job_id
from iris_fed.model.jobs import Job
from iris_fed.model.ports import Handoffs
from iris_fed.store.commit import commit
from iris_fed.store.db import Tx
from iris_fed.store.handles import open_sent_by_job, update_sent
from iris_fed.store.jobs import job_by_id, load_draft
from iris_fed.store.runtime import Runtime
from iris_fed.store.tree import change_unfinished_below


class Canceller:
    """TerminateJob of this cluster's own users."""

    def __init__(self, runtime: Runtime, loop: ControlLoop, handoffs: Handoffs) -> None:
        self._runtime = runtime
        self._loop = loop
        self._handoffs = handoffs

    async def cancel(self, caller: Identity, job_id: str) -> None:
        """Returns once the cancel is durable; the end follows. Ended jobs keep their end.

        Raises InvalidArgument, NotFound or PermissionDenied.
        """
        parse_job_id(job_id)
        if not caller.may_reach(job_id):
            raise PermissionDenied(f"a task may cancel only its own job and what is below it, not {job_id}")
        job = await self._runtime.db.read(lambda tx: job_by_id(tx, job_id))
        if job is None:
            raise NotFound(f"there is no job {job_id}")
        if caller.role not in (Role.ADMIN, Role.JOB) and (job.requester or job.user != caller.user):
            raise PermissionDenied(f"{caller.principal} may not cancel {job_id}: it is not theirs")
        await self.cancel_job(job_id, caller.principal)

    async def cancel_job(self, job_id: str, who: str) -> None:
        """The same without asking who may; `who` is told to the job's user."""
        now_ms = self._runtime.clock.now_ms()
        found = await self._runtime.db.write(lambda tx: _cancel(tx, job_id, who, now_ms))
        if found is None:
            return
        job, changed = found
        self._runtime.signals.publish(changed)
        if job.cluster:
            self._handoffs.wake(job.cluster)
            if job.parent_uid is not None:
                self._handoffs.cancel_child(job.cluster, job.job_id, job.nonce)
        else:
            self._loop.wake()


def _cancel(tx: Tx, job_id: str, who: str, now_ms: int) -> tuple[Job, set[int]] | None:
    """The job, and the uids of all that changed."""
    job = job_by_id(tx, job_id)
    if job is None:
        return None
    draft = load_draft(tx, job)
    below: set[int] = set()
    if not job.cluster:
        lifecycle.request_cancel(draft, who, now_ms)
        below = change_unfinished_below(tx, job.uid, lambda child: lifecycle.request_cancel(child, who, now_ms))
    elif job.parent_uid is not None:
        handoff.on_child_cancel(draft, who, now_ms)
    else:
        handle = open_sent_by_job(tx, job_id)
        if handle is not None:
            update_sent(tx, handle, handoff.on_cancel(handle, draft, who, now_ms))
    commit(tx, draft)
    return job, below | {job.uid}
