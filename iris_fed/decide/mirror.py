"""What one row of a peer's feed does to the mirror of a job (design, "Sync").

A row is matched by nonce to the handle of one incarnation and never touches another.
"""

from dataclasses import replace
from enum import StrEnum
from typing import Any

from iris_fed.decide import handoff
from iris_fed.decide.draft import Draft
from iris_fed.model.federation import Delta, SentHandle
from iris_fed.model.jobs import Attempt, AttemptReport, Job, JobReport, Task, TaskReport
from iris_fed.model.spec import JobSpec
from iris_fed.model.states import TERMINAL_JOB_STATES, JobState, PeerStatus, SentState


class Match(StrEnum):
    """FOLLOW: it is our open handle. CHILD: a job below the root of our handle. DONE: closed,
    nothing changes. STRAY: closed here but alive there, so it is cancelled there. UNKNOWN: no handle
    of ours; skipped and counted."""

    FOLLOW = "FOLLOW"
    CHILD = "CHILD"
    DONE = "DONE"
    STRAY = "STRAY"
    UNKNOWN = "UNKNOWN"


def match_delta(delta: Delta, handle: SentHandle | None) -> Match:
    """What a row is to us. `handle` is the one of the row's nonce, if there is one."""
    if handle is None or not handle.sent:
        return Match.UNKNOWN
    if delta.job_id.startswith(handle.remote_job_id + "/"):
        # A root's end stops what is below it, which takes its time.
        return Match.DONE if handle.lost else Match.CHILD
    if delta.job_id != handle.remote_job_id:
        return Match.UNKNOWN
    if handle.state is not SentState.CLOSED:
        return Match.FOLLOW
    alive = not delta.tombstone and delta.report is not None and delta.report.state not in TERMINAL_JOB_STATES
    return Match.STRAY if alive else Match.DONE


def remote_id_of(handle: SentHandle, job_id: str) -> str:
    """The id on the peer of the handle's root, or of a job below it."""
    return handle.remote_job_id + job_id.removeprefix(handle.job_id)


def local_id_of(handle: SentHandle, remote_id: str) -> str:
    """The opposite."""
    return handle.job_id + remote_id.removeprefix(handle.remote_job_id)


def is_another(child: Job, report: JobReport) -> bool:
    """Children may end and begin again under one id: whether the report is of a later one than `child`."""
    if report.submitted_ms is not None and report.submitted_ms != child.submitted_ms:
        return True
    return child.finished_ms is not None and report.state not in TERMINAL_JOB_STATES


def follow(handle: SentHandle, draft: Draft, delta: Delta, now_ms: int) -> SentHandle:
    """Bring the mirror of an open handle to what the peer says; an end closes the handle.

    The draft must hold the tasks of the row and all of their attempts.
    """
    handle = handoff.on_ack(handle, draft, now_ms)
    handle = replace(handle, missing_since_ms=None)
    if delta.tombstone:
        return _end_by_tombstone(handle, draft, delta.report, now_ms)
    for task in delta.tasks:
        if task.index < draft.job.task_count:
            _follow_task(draft, task, now_ms)
    if delta.report is None:
        return handle
    return _follow_job(handle, draft, delta.report, synced=bool(delta.tasks), now_ms=now_ms)


def follow_child(peer: str, draft: Draft, delta: Delta, now_ms: int) -> None:
    """The same for a job below the root, which has no handle of its own. A tombstone says only that
    the peer has removed it, so the mirror stays as it is."""
    if delta.report is None or delta.tombstone or draft.ended:
        return
    for task in delta.tasks:
        if task.index < draft.job.task_count:
            _follow_task(draft, task, now_ms)
    cancelled = draft.job.cancel_requested_ms is not None
    _follow_report(draft, delta.report, peer, synced=bool(delta.tasks), cancelled=cancelled, now_ms=now_ms)


def mirrored_child(parent: Job, job_id: str, report: JobReport, now_ms: int) -> Job:
    """A child first heard of. What it runs is not told, only how it fares."""
    return Job(
        job_id=job_id,
        parent_uid=parent.uid,
        user=parent.user,
        submitting_user=parent.submitting_user,
        spec=JobSpec(argv=(), replicas=max(1, report.task_count)),
        band=parent.band,
        submitted_ms=report.submitted_ms or now_ms,
        task_count=report.task_count,
        cluster=parent.cluster,
        nonce=parent.nonce,
        peer_status=PeerStatus.ASSIGNED,
    )


def note_missing(handle: SentHandle, draft: Draft, asked_ms: int, lost_after_ms: int, now_ms: int) -> SentHandle:
    """A full set, asked for at `asked_ms`, lacks a handle of which the peer had acknowledged the delivery or
    the cancel."""
    if handle.missing_since_ms is None:
        draft.set_job(pending_reason=f"{handle.peer} does not show this job any more; asking again")
        draft.note(now_ms, "handoff.missing", f"{handle.peer} does not show this job any more")
        return replace(handle, missing_since_ms=asked_ms)
    if asked_ms - handle.missing_since_ms < lost_after_ms:
        return handle
    if handle.state is SentState.PENDING_HANDOFF:
        return handoff.on_cancel_unknown(handle, draft, now_ms)
    reason = f"lost: {handle.peer} accepted this job and no longer knows it; it may have run"
    handoff.end_job(draft, JobState.WORKER_FAILED, reason, now_ms)
    return replace(handle, state=SentState.CLOSED, closed_ms=now_ms, lost=True)


def _end_by_tombstone(handle: SentHandle, draft: Draft, end: JobReport | None, now_ms: int) -> SentHandle:
    if handle.refusal and (end is None or end.state is JobState.KILLED):
        return handoff.close_refused(handle, draft, now_ms)
    if end is None or end.state not in TERMINAL_JOB_STATES:
        reason = f"lost: {handle.peer} no longer knows how this job ended"
        handoff.end_job(draft, JobState.WORKER_FAILED, reason, now_ms)
        return replace(handle, state=SentState.CLOSED, closed_ms=now_ms, lost=True)
    handoff.end_job(draft, end.state, end.error, end.finished_ms or now_ms, end.exit_code)
    return replace(handle, state=SentState.CLOSED, closed_ms=now_ms)


def _follow_job(handle: SentHandle, draft: Draft, report: JobReport, *, synced: bool, now_ms: int) -> SentHandle:
    ended = report.state in TERMINAL_JOB_STATES
    if handle.refusal and report.state is JobState.KILLED:
        # A copy had arrived after all, and our own fence ended it.
        return handoff.close_refused(handle, draft, now_ms)
    cancelled = handle.cancelled_ms is not None
    _follow_report(draft, report, handle.peer, synced=synced, cancelled=cancelled, now_ms=now_ms)
    if not ended:
        return handle
    return replace(handle, state=SentState.CLOSED, closed_ms=now_ms)


def _follow_report(draft: Draft, report: JobReport, peer: str, *, synced: bool, cancelled: bool, now_ms: int) -> None:
    ended = report.state in TERMINAL_JOB_STATES
    changes: dict[str, Any] = {
        "error": _error(draft.job, report),
        "started_ms": report.started_ms,
        "failure_count": report.failure_count,
        "preemption_count": report.preemption_count,
        "backend_id": report.backend_id,
        "exit_code": report.exit_code if ended else None,
    }
    if synced:
        changes["peer_status"] = PeerStatus.SYNCED
    if ended:
        changes |= {"state": report.state, "finished_ms": report.finished_ms or now_ms, "pending_reason": ""}
    else:
        changes["state"] = report.state
        if not cancelled:
            changes["pending_reason"] = f"{peer}: {report.pending_reason}" if report.pending_reason else ""
    before = draft.job.state
    draft.set_job(**changes)
    if report.state is not before:
        words = f"{'ended ' if ended else ''}{report.state.value} on {peer}"
        draft.note(now_ms, "job.ended" if ended else "job.state", words + (f": {report.error}" if report.error else ""))


def _error(job: Job, report: JobReport) -> str:
    """Of a cancel the parent knows who asked for it, unless the job was lost meanwhile; the peer only which cluster
    did."""
    ours = job.cancel_requested_ms is not None and report.state in (JobState.KILLED, JobState.PENDING, JobState.RUNNING)
    return (ours and job.error) or report.error


def _follow_task(draft: Draft, report: TaskReport, now_ms: int) -> None:
    fields: dict[str, Any] = {
        "state": report.state,
        "current_attempt": report.current_attempt,
        "exit_code": report.exit_code,
        "error": report.error,
        "pending_reason": report.pending_reason,
        "started_ms": report.started_ms,
        "finished_ms": report.finished_ms,
        "backend_id": report.backend_id,
    }
    if report.index in draft.tasks:
        draft.set_task(report.index, **fields)
    else:
        submitted_ms = report.submitted_ms or draft.job.submitted_ms
        draft.add_task(Task(job_uid=draft.job.uid, index=report.index, submitted_ms=submitted_ms, **fields))
    for attempt in report.attempts:
        _follow_attempt(draft, report, attempt, now_ms)


def _follow_attempt(draft: Draft, task: TaskReport, report: AttemptReport, now_ms: int) -> None:
    key = (task.index, report.number)
    fields: dict[str, Any] = {
        "attempt_uid": report.attempt_uid,
        "state": report.state,
        "node": report.node,
        "exit_code": report.exit_code,
        "error": report.error,
        "terminal_reason": report.terminal_reason,
        "is_worker_failure": report.is_worker_failure,
        "started_ms": report.started_ms,
        "finished_ms": report.finished_ms,
        "backend_id": task.backend_id,
    }
    if report.number == task.current_attempt:
        fields |= {"address": task.address, "ports": dict(task.ports), "usage": task.usage}
    if key in draft.attempts:
        draft.set_attempt(key, **fields)
        return
    created_ms = report.started_ms or now_ms
    draft.add_attempt(
        Attempt(
            job_uid=draft.job.uid,
            task_index=task.index,
            number=report.number,
            created_ms=created_ms,
            mirrored=True,
            **fields,
        )
    )
