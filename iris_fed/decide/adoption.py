"""What a peer's row of an incarnation of ours that this database does not know becomes (design, "Sync").

The nonce proves that this cluster minted it, so the parent's database was lost, or restored from an
older copy. *Lost* taken back is here too: the peer shows again what was believed gone.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from iris_fed.decide.draft import Draft
from iris_fed.model.federation import Delta, SentHandle
from iris_fed.model.jobs import Job, JobEvent, JobReport
from iris_fed.model.spec import JobSpec
from iris_fed.model.states import (
    TERMINAL_JOB_STATES,
    Band,
    ExistingJobPolicy,
    PeerStatus,
    SentState,
)


class Adoption(StrEnum):
    """ADOPT: a job and a handle are made of it. GIVE_WAY: the name's open handle closes, and its job
    becomes this incarnation. ORPHAN: the name is alive elsewhere, so it is left alone and shown.
    LATER: asked again with a later full set. PASS: of no use any more."""

    ADOPT = "ADOPT"
    GIVE_WAY = "GIVE_WAY"
    ORPHAN = "ORPHAN"
    LATER = "LATER"
    PASS = "PASS"


@dataclass(frozen=True, slots=True)
class Terms:
    """`asked_ms`: when the request left whose answer this is. `retention_ms`: how long a finished job
    is kept here."""

    peer: str
    asked_ms: int
    now_ms: int
    retention_ms: int


def choose_adoption(delta: Delta, job: Job | None, handle: SentHandle | None, terms: Terms) -> Adoption:
    """`job` has the incarnation's name here, `handle` is the open one of that name."""
    report = delta.report
    if report is None:
        return Adoption.PASS
    ended = report.state in TERMINAL_JOB_STATES
    if ended and (report.finished_ms is None or terms.now_ms - report.finished_ms > terms.retention_ms):
        # Also a fence, which tells no time: it never was a job.
        return Adoption.PASS
    if job is None:
        return Adoption.ADOPT
    if delta.tombstone:
        return Adoption.PASS
    if job.state in TERMINAL_JOB_STATES:
        later = not ended or (report.finished_ms or 0) > (job.finished_ms or 0)
        return Adoption.ADOPT if later else Adoption.PASS
    if handle is None or handle.peer != terms.peer:
        return Adoption.PASS if ended else Adoption.ORPHAN
    if handle.state is SentState.HANDED_OFF:
        # The peer runs one incarnation of a name. It spoke after it had taken ours, and shows this one.
        spoke_after = handle.acked_ms is not None and handle.acked_ms < terms.asked_ms
        return Adoption.GIVE_WAY if spoke_after else Adoption.LATER
    if ended:
        return Adoption.PASS
    gives_way = not handle.sent and handle.policy is not ExistingJobPolicy.RECREATE
    # What was sent is answered first; RECREATE ends the other one there.
    return Adoption.GIVE_WAY if gives_way else Adoption.LATER


def adopted_handle(delta: Delta, job_id: str, user: str, database_id: str, terms: Terms) -> SentHandle:
    """The handle that the lost database had."""
    submitter = delta.report.submitting_user if delta.report is not None else ""
    return SentHandle(
        nonce=delta.nonce,
        peer=terms.peer,
        job_id=job_id,
        remote_job_id=delta.job_id,
        state=SentState.HANDED_OFF,
        owner=user,
        submitting_user=submitter,
        sent=True,
        created_ms=terms.now_ms,
        expires_ms=terms.now_ms,
        acked_ms=terms.now_ms,
        database_id=database_id,
        adopted=True,
    )


def adopted_job(handle: SentHandle, report: JobReport, now_ms: int) -> tuple[Job, JobEvent]:
    """What it runs is not known here any more, only how it fares."""
    job = Job(
        job_id=handle.job_id,
        user=handle.owner,
        submitting_user=handle.submitting_user,
        spec=JobSpec(argv=(), replicas=max(1, report.task_count)),
        band=Band.INTERACTIVE,
        submitted_ms=report.submitted_ms or now_ms,
        task_count=max(1, report.task_count),
        cluster=handle.peer,
        nonce=handle.nonce,
        peer_status=PeerStatus.ASSIGNED,
    )
    words = f"adopted: {handle.peer} runs it for this cluster, whose database did not know it any more"
    return job, JobEvent(0, now_ms, "handoff.adopted", words)


def give_way(old: SentHandle, adopted: SentHandle, draft: Draft, report: JobReport, now_ms: int) -> SentHandle:
    """The job becomes the `adopted` incarnation; returns the old handle, closed. The draft holds no tasks."""
    draft.set_job(
        nonce=adopted.nonce,
        peer_status=PeerStatus.ASSIGNED,
        task_count=max(1, report.task_count),
        started_ms=None,
        failure_count=0,
        preemption_count=0,
    )
    draft.note(now_ms, "handoff.adopted", f"{old.peer} runs an earlier submission of this name, which is followed now")
    return replace(old, state=SentState.CLOSED, closed_ms=now_ms, missing_since_ms=None)


def inherit_cancel(old: SentHandle, adopted: SentHandle) -> SentHandle:
    """Who cancelled the job meant whatever runs under its name."""
    return replace(adopted, cancelled_ms=old.cancelled_ms)


def shows_lost_again(delta: Delta, handle: SentHandle | None, job: Job | None) -> bool:
    """Whether the row takes back that the handle was lost: its name was not used since, and the row
    tells more than that it is gone (a fence is no proof: a wiped peer fences what it never knew)."""
    if handle is None or handle.state is not SentState.CLOSED or not handle.lost or delta.report is None:
        return False
    if delta.tombstone and delta.report.finished_ms is None:
        return False
    return delta.job_id == handle.remote_job_id and job is not None and job.nonce == handle.nonce


def take_back_lost(handle: SentHandle, draft: Draft, now_ms: int) -> SentHandle:
    """The only way out of an end (promise 6). A cancel is told again. To show it is to acknowledge it: no answer to
    a delivery may ever have come."""
    draft.reopen(f"{handle.peer} shows this job again; it was not lost", now_ms)
    return replace(
        handle,
        state=SentState.HANDED_OFF,
        acked_ms=now_ms if handle.acked_ms is None else handle.acked_ms,
        unanswered=False,
        closed_ms=None,
        lost=False,
        missing_since_ms=None,
        cancel_acked=False,
        tries=0,
        next_try_ms=now_ms,
    )
