"""What becomes of a sent handle, and of its job, at each step on the way to the peer (design, section 6).

Each function takes the handle and the draft of its job, changes the draft and returns the handle
as it is then.
"""

from dataclasses import replace

from iris_fed.decide.backoff import backoff_ms
from iris_fed.decide.draft import Draft
from iris_fed.decide.mirrored import end_open_tasks
from iris_fed.model.federation import SentHandle
from iris_fed.model.states import JobState, PeerStatus, SentState, TaskState

RETRY_BASE_MS = 500
TOKEN_LIFE_MS = 300_000
"""A delivery cannot be accepted longer than its federation token lives (wire contract)."""
_TASKS_END = {JobState.SUCCEEDED: TaskState.SUCCEEDED, JobState.KILLED: TaskState.KILLED}
"""How tasks ended of which only the end of their job is known."""
FINAL_REFUSALS = frozenset({"already_exists", "permission_denied", "invalid_argument", "out_of_range"})
"""Codes by which a peer's own answer ends a handoff; anything else is tried again."""


def mark_sent(handle: SentHandle, database_id: str) -> SentHandle:
    """Before a request leaves for the peer's database `database_id`: from here on it may have arrived."""
    return replace(handle, sent=True, deliveries=handle.deliveries + 1, database_id=database_id)


def believe_taken(handle: SentHandle, database_id: str) -> SentHandle:
    """Another database answers for the peer now: what the former one may have taken is not delivered
    again, since it may have run; the full set will tell."""
    another = handle.database_id not in ("", database_id)
    if handle.state is SentState.PENDING_HANDOFF and handle.unanswered and another:
        return replace(handle, state=SentState.HANDED_OFF, acked_ms=handle.created_ms)
    return handle


def on_ack(handle: SentHandle, draft: Draft, now_ms: int) -> SentHandle:
    """The peer has it: its answer to a delivery, or its first report of the job."""
    if handle.state is not SentState.PENDING_HANDOFF:
        return handle
    if not draft.ended:
        reason = _cancelling(handle.peer) if handle.cancelled_ms is not None else ""
        draft.set_job(peer_status=PeerStatus.ASSIGNED, pending_reason=reason)
        draft.note(now_ms, "handoff.accepted", f"{handle.peer} accepted the job as {handle.remote_job_id}")
    return replace(handle, state=SentState.HANDED_OFF, acked_ms=now_ms, unanswered=False, tries=0, last_error="")


def on_no_answer(
    handle: SentHandle, draft: Draft, error: str, *, arrived: bool, now_ms: int, max_backoff_ms: int, jitter: float
) -> SentHandle:
    """A delivery or cancel brought no final answer; it is tried again later."""
    tries = handle.tries + 1
    wait_ms = backoff_ms(tries, RETRY_BASE_MS, max_backoff_ms, jitter)
    pending = handle.state is SentState.PENDING_HANDOFF
    if not draft.ended and pending and handle.cancelled_ms is None:
        reason = f"waiting to hand it to {handle.peer}: {error}"
        if draft.job.pending_reason != reason:
            draft.set_job(pending_reason=reason)
            draft.note(now_ms, "handoff.delayed", reason)
    return replace(
        handle,
        unanswered=handle.unanswered or (arrived and pending and handle.cancelled_ms is None),
        tries=tries,
        next_try_ms=now_ms + wait_ms,
        last_error=error,
    )


def on_refused(handle: SentHandle, draft: Draft, words: str, now_ms: int) -> SentHandle:
    """The peer's own final no to a delivery. If an earlier attempt may have arrived, fence it first."""
    if handle.state is not SentState.PENDING_HANDOFF:
        return handle
    refusal = f"{handle.peer} refused it: {words}"
    if handle.unanswered:
        draft.set_job(pending_reason=f"{refusal}; making sure that no earlier copy runs there")
        return replace(handle, cancelled_ms=handle.cancelled_ms or now_ms, refusal=refusal, next_try_ms=now_ms, tries=0)
    return close_refused(replace(handle, refusal=refusal), draft, now_ms)


def on_expired(handle: SentHandle, draft: Draft, now_ms: int) -> SentHandle:
    """Not accepted in time: closed if it never left, else fenced first. What the peer accepted
    meanwhile has not expired."""
    if handle.state is not SentState.PENDING_HANDOFF:
        return handle
    tried = f": {handle.last_error}" if handle.last_error else ""
    refusal = f"it could not be handed to {handle.peer} in time{tried}"
    if not handle.sent:
        return close_refused(replace(handle, refusal=refusal), draft, now_ms)
    draft.set_job(pending_reason=f"{refusal}; making sure that no copy runs there")
    return replace(handle, cancelled_ms=handle.cancelled_ms or now_ms, refusal=refusal, next_try_ms=now_ms, tries=0)


def on_cancel(handle: SentHandle, draft: Draft, who: str, now_ms: int) -> SentHandle:
    """A user wants the end. Not sent: it ends here and now; otherwise the peer must hear of it."""
    if draft.ended or draft.job.cancel_requested_ms is not None:
        return handle
    draft.set_job(cancel_requested_ms=now_ms, error=f"cancelled by {who}")
    draft.note(now_ms, "job.cancelled", f"cancel requested by {who}")
    if not handle.sent:
        end_job(draft, JobState.KILLED, f"cancelled by {who} before it was sent", now_ms)
        return _closed(replace(handle, cancelled_ms=now_ms), now_ms)
    draft.set_job(pending_reason=_cancelling(handle.peer))
    return replace(handle, cancelled_ms=handle.cancelled_ms or now_ms, next_try_ms=now_ms, tries=0)


def on_child_cancel(draft: Draft, who: str, now_ms: int) -> None:
    """A user wants the end of a child that runs on the peer below a handed-off root."""
    if draft.ended or draft.job.cancel_requested_ms is not None:
        return
    draft.set_job(
        cancel_requested_ms=now_ms, error=f"cancelled by {who}", pending_reason=_cancelling(draft.job.cluster)
    )
    draft.note(now_ms, "job.cancelled", f"cancel requested by {who}")


def cancel_may_be_overtaken(handle: SentHandle, left_ms: int) -> bool:
    """Whether a cancel that left at `left_ms` for a peer without our extensions may have come before a
    delivery that is still under way: such a peer fences nothing, only the delivery's token runs out."""
    if handle.state is not SentState.PENDING_HANDOFF or not handle.unanswered:
        return False
    return left_ms < (handle.cancelled_ms or 0) + TOKEN_LIFE_MS


def on_cancel_acked(handle: SentHandle, draft: Draft, now_ms: int, *, plain: bool = False) -> SentHandle:
    """The peer has heard: it will not start the incarnation any more. Whether a copy ran, and how that
    ended, comes by sync. `plain`: a peer without our extensions, which answers so only for a job that it
    has, and tells nothing of one that it never had."""
    if handle.state is SentState.CLOSED:
        return handle
    if plain:
        handle = on_ack(handle, draft, now_ms)
    acked = replace(handle, cancel_acked=True, last_error="")
    if not draft.ended and not handle.refusal:
        draft.set_job(pending_reason=f"{handle.peer} is ending it")
        draft.note(now_ms, "handoff.cancel_heard", f"{handle.peer} has heard of the cancel")
    return acked


def on_cancel_unknown(handle: SentHandle, draft: Draft, now_ms: int) -> SentHandle:
    """A peer without our extension does not know the job: there is nothing to cancel."""
    if handle.state is SentState.CLOSED:
        return handle
    if not draft.ended:
        state = JobState.FAILED if handle.refusal else JobState.KILLED
        end_job(draft, state, handle.refusal or f"cancelled; {handle.peer} does not know it", now_ms)
    return _closed(replace(handle, cancel_acked=True), now_ms)


def on_forgotten(handle: SentHandle, draft: Draft, who: str, now_ms: int) -> SentHandle:
    """An operator says that the peer never comes back: nobody can know what became of the job."""
    if handle.state is SentState.CLOSED:
        return handle
    if handle.sent:
        reason = f"lost: {who} gave up {handle.peer}, which had this job; it may have run"
        end_job(draft, JobState.WORKER_FAILED, reason, now_ms)
    else:
        end_job(draft, JobState.WORKER_FAILED, f"{who} gave up {handle.peer} before this job was sent there", now_ms)
    return replace(_closed(handle, now_ms), lost=handle.sent)


def end_job(draft: Draft, state: JobState, error: str, now_ms: int, exit_code: int | None = None) -> None:
    """The handed-off job is over, and so are those of its tasks that the draft holds."""
    end_open_tasks(draft, _TASKS_END.get(state, TaskState.WORKER_FAILED), error, now_ms)
    draft.set_job(state=state, error=error, exit_code=exit_code, finished_ms=now_ms, pending_reason="")
    draft.note(now_ms, "job.ended", f"ended {state.value}" + (f": {error}" if error else ""))


def close_refused(handle: SentHandle, draft: Draft, now_ms: int) -> SentHandle:
    """The handoff failed for the reason in `refusal`, and no copy can run any more."""
    if not draft.ended:
        cancelled = draft.job.cancel_requested_ms is not None
        draft.set_job(peer_status=PeerStatus.REJECTED)
        draft.note(now_ms, "handoff.refused", handle.refusal)
        end_job(draft, JobState.KILLED if cancelled else JobState.FAILED, handle.refusal, now_ms)
    return _closed(handle, now_ms)


def _closed(handle: SentHandle, now_ms: int) -> SentHandle:
    return replace(handle, state=SentState.CLOSED, closed_ms=now_ms, missing_since_ms=None)


def _cancelling(peer: str) -> str:
    return f"cancelled; {peer} has not confirmed it yet"
