"""A sent handle and its job on the way to the peer, step by step."""

from dataclasses import replace
from typing import Any

import pytest

from iris_fed.decide import handoff, mirror
from iris_fed.decide.draft import Draft
from iris_fed.decide.newjob import handed_to, new_job
from iris_fed.model.federation import Delta, SentHandle
from iris_fed.model.jobs import JobReport
from iris_fed.model.spec import JobSpec, Submission
from iris_fed.model.states import JobState, PeerStatus, SentState


def handed(**changes: Any) -> tuple[SentHandle, Draft]:
    handle = SentHandle(
        nonce="n1", peer="lab", job_id="/a/x", remote_job_id="/a/hub.x", owner="a", submitting_user="a@lab",
        created_ms=1_000, expires_ms=9_000,
    )  # fmt: skip
    job = handed_to(new_job(Submission("x", JobSpec(("true",))), "/a/x", "a", "a@lab", 1_000), "lab", "n1")
    return replace(handle, **changes), Draft(job)


def unanswered(handle: SentHandle, draft: Draft, error: str = "connection refused", **more: Any) -> SentHandle:
    given: dict[str, Any] = {"arrived": True, "now_ms": 2_000, "max_backoff_ms": 60_000, "jitter": 0.0}
    return handoff.on_no_answer(handle, draft, error, **given | more)


def told(draft: Draft) -> list[str]:
    return [event.kind for event in draft.events]


def test_a_delivery_is_counted_before_it_leaves() -> None:
    handle, _ = handed()
    once = handoff.mark_sent(handle, "db")
    assert (once.sent, once.deliveries) == (True, 1)
    assert handoff.mark_sent(once, "db").deliveries == 2


def test_an_ack_hands_the_job_over_and_clears_what_went_wrong() -> None:
    handle, draft = handed(sent=True, unanswered=True, tries=4, last_error="no answer in time")
    after = handoff.on_ack(handle, draft, 2_000)
    assert (after.state, after.acked_ms, after.unanswered, after.tries) == (SentState.HANDED_OFF, 2_000, False, 0)
    assert after.last_error == ""
    assert (draft.job.peer_status, draft.job.pending_reason) == (PeerStatus.ASSIGNED, "")
    assert draft.events[-1].message == "lab accepted the job as /a/hub.x"


@pytest.mark.parametrize("state", [SentState.HANDED_OFF, SentState.CLOSED])
def test_a_second_or_late_ack_changes_nothing(state: SentState) -> None:
    handle, draft = handed(state=state, acked_ms=1_500)
    before = draft.job
    assert handoff.on_ack(handle, draft, 2_000) == handle
    assert draft.job == before
    assert not draft.events


def test_an_unanswered_delivery_is_tried_again_later_and_says_why() -> None:
    handle, draft = handed(sent=True)
    after = unanswered(handle, draft)
    assert (after.tries, after.next_try_ms, after.unanswered) == (1, 2_250, True)
    assert draft.job.pending_reason == "waiting to hand it to lab: connection refused"
    again = unanswered(after, draft, now_ms=3_000)
    assert (again.tries, again.next_try_ms) == (2, 3_500)
    assert told(draft) == ["handoff.delayed"]
    unanswered(again, draft, "it answered unavailable: starting")
    assert told(draft) == ["handoff.delayed", "handoff.delayed"]


def test_waits_between_deliveries_are_bounded() -> None:
    handle, draft = handed(sent=True, tries=10**6)
    assert unanswered(handle, draft, jitter=0.999).next_try_ms <= 62_000


def test_a_delivery_that_certainly_did_not_arrive_needs_no_fence() -> None:
    handle, draft = handed(sent=True)
    after = unanswered(handle, draft, arrived=False)
    assert not after.unanswered
    assert unanswered(replace(after, unanswered=True), draft, arrived=False).unanswered


def test_a_failed_cancel_is_tried_again_without_a_word_about_handing_over() -> None:
    handle, draft = handed(sent=True, cancelled_ms=1_900)
    draft.set_job(pending_reason="cancelled; lab has not confirmed it yet")
    after = unanswered(handle, draft)
    assert (after.tries, after.unanswered) == (1, False)
    assert draft.job.pending_reason == "cancelled; lab has not confirmed it yet"


def test_a_refusal_of_the_only_delivery_ends_the_job_in_the_peers_words() -> None:
    handle, draft = handed(sent=True)
    after = handoff.on_refused(handle, draft, "this cluster takes no jobs of a@lab", 2_000)
    assert (after.state, after.closed_ms) == (SentState.CLOSED, 2_000)
    assert (draft.job.state, draft.job.peer_status) == (JobState.FAILED, PeerStatus.REJECTED)
    assert draft.job.error == "lab refused it: this cluster takes no jobs of a@lab"
    assert (draft.job.finished_ms, draft.job.pending_reason) == (2_000, "")


def test_a_refusal_after_an_unanswered_delivery_ends_nothing_before_the_fence_is_heard() -> None:
    handle, draft = handed(sent=True, unanswered=True)
    fencing = handoff.on_refused(handle, draft, "the name is taken", 2_000)
    assert (fencing.state, fencing.cancelled_ms, fencing.next_try_ms) == (SentState.PENDING_HANDOFF, 2_000, 2_000)
    assert not draft.ended
    assert "making sure that no earlier copy runs there" in draft.job.pending_reason
    delayed = unanswered(fencing, draft)
    assert not draft.ended
    heard = handoff.on_cancel_acked(delayed, draft, 3_000)
    # Whether a copy had arrived, and how it ended, only the feed tells.
    assert (heard.state, heard.cancel_acked, draft.ended) == (SentState.PENDING_HANDOFF, True, False)
    fence = Delta(job_id=heard.remote_job_id, nonce=heard.nonce, tombstone=True)
    after = mirror.follow(heard, draft, fence, 4_000)
    assert after.state is SentState.CLOSED
    assert (draft.job.state, draft.job.error) == (JobState.FAILED, "lab refused it: the name is taken")


def test_a_copy_that_ran_to_its_end_before_our_fence_counts_as_it_ended() -> None:
    handle, draft = handed(sent=True, unanswered=True)
    heard = handoff.on_cancel_acked(handoff.on_expired(handle, draft, 9_000), draft, 9_100)
    report = JobReport(job_id=heard.remote_job_id, state=JobState.SUCCEEDED, exit_code=0, finished_ms=8_000)
    after = mirror.follow(heard, draft, Delta(job_id=heard.remote_job_id, nonce=heard.nonce, report=report), 9_200)
    assert after.state is SentState.CLOSED
    assert (draft.job.state, draft.job.exit_code) == (JobState.SUCCEEDED, 0)


def test_a_refused_job_that_its_user_cancelled_is_killed_not_failed() -> None:
    handle, draft = handed(sent=True)
    cancelled = handoff.on_cancel(handle, draft, "bob", 1_500)
    handoff.on_refused(cancelled, draft, "no", 2_000)
    assert draft.job.state is JobState.KILLED


@pytest.mark.parametrize("state", [SentState.HANDED_OFF, SentState.CLOSED])
def test_what_the_peer_accepted_meanwhile_is_neither_refused_nor_expired(state: SentState) -> None:
    handle, draft = handed(sent=True, state=state)
    before = draft.job
    assert handoff.on_refused(handle, draft, "no", 2_000) == handle
    assert handoff.on_expired(handle, draft, 10_000) == handle
    assert draft.job == before


def test_a_handoff_that_never_left_expires_at_once() -> None:
    handle, draft = handed(last_error="it is not reachable")
    after = handoff.on_expired(handle, draft, 9_000)
    assert after.state is SentState.CLOSED
    assert draft.job.state is JobState.FAILED
    assert draft.job.error == "it could not be handed to lab in time: it is not reachable"


def test_an_expired_handoff_that_left_is_fenced_first() -> None:
    handle, draft = handed(sent=True, tries=7)
    fencing = handoff.on_expired(handle, draft, 9_000)
    assert (fencing.state, fencing.cancelled_ms, fencing.tries) == (SentState.PENDING_HANDOFF, 9_000, 0)
    assert not draft.ended
    heard = handoff.on_cancel_acked(fencing, draft, 9_500)
    mirror.follow(heard, draft, Delta(job_id=heard.remote_job_id, nonce=heard.nonce, tombstone=True), 9_600)
    assert (draft.job.state, draft.job.error) == (JobState.FAILED, "it could not be handed to lab in time")


def test_a_cancel_is_never_taken_back_by_an_expiry() -> None:
    handle, draft = handed(sent=True)
    cancelled = handoff.on_cancel(handle, draft, "bob", 5_000)
    assert handoff.on_expired(cancelled, draft, 9_000).cancelled_ms == 5_000


def test_a_cancel_before_it_was_sent_ends_the_job_here_and_now() -> None:
    handle, draft = handed()
    after = handoff.on_cancel(handle, draft, "bob", 2_000)
    assert (after.state, after.cancelled_ms, after.sent) == (SentState.CLOSED, 2_000, False)
    assert (draft.job.state, draft.job.error) == (JobState.KILLED, "cancelled by bob before it was sent")


def test_a_cancel_of_what_was_sent_waits_for_the_peer_and_says_so() -> None:
    handle, draft = handed(sent=True, tries=5, next_try_ms=90_000)
    after = handoff.on_cancel(handle, draft, "bob", 2_000)
    assert (after.state, after.cancelled_ms, after.next_try_ms, after.tries) == (
        SentState.PENDING_HANDOFF, 2_000, 2_000, 0,
    )  # fmt: skip
    assert draft.job.pending_reason == "cancelled; lab has not confirmed it yet"
    acked = handoff.on_ack(after, draft, 2_100)
    assert draft.job.pending_reason == "cancelled; lab has not confirmed it yet"
    heard = handoff.on_cancel_acked(acked, draft, 2_200)
    assert (heard.state, heard.cancel_acked) == (SentState.HANDED_OFF, True)
    assert draft.job.pending_reason == "lab is ending it"
    assert not draft.ended


def test_a_second_cancel_and_one_of_an_ended_job_change_nothing() -> None:
    handle, draft = handed(sent=True)
    once = handoff.on_cancel(handle, draft, "bob", 2_000)
    events = len(draft.events)
    assert handoff.on_cancel(once, draft, "carol", 3_000) == once
    assert len(draft.events) == events
    ended, over = handed(sent=True)
    handoff.end_job(over, JobState.SUCCEEDED, "", 1_500, 0)
    assert handoff.on_cancel(ended, over, "bob", 2_000) == ended
    assert over.job.state is JobState.SUCCEEDED


@pytest.mark.parametrize(("refusal", "state"), [("", JobState.KILLED), ("lab refused it: no", JobState.FAILED)])
def test_a_peer_that_does_not_know_the_job_has_nothing_to_cancel(refusal: str, state: JobState) -> None:
    handle, draft = handed(sent=True, state=SentState.HANDED_OFF, cancelled_ms=1_900, refusal=refusal)
    after = handoff.on_cancel_unknown(handle, draft, 2_000)
    assert after.state is SentState.CLOSED
    assert draft.job.state is state


def test_late_answers_to_a_cancel_of_a_closed_handle_change_nothing() -> None:
    handle, draft = handed(sent=True, state=SentState.CLOSED, closed_ms=1_500)
    handoff.end_job(draft, JobState.SUCCEEDED, "", 1_500, 0)
    before, events = draft.job, len(draft.events)
    assert handoff.on_cancel_acked(handle, draft, 2_000) == handle
    assert handoff.on_cancel_unknown(handle, draft, 2_000) == handle
    assert (draft.job, len(draft.events)) == (before, events)


def test_only_the_peers_own_no_ends_a_handoff() -> None:
    assert {"already_exists", "permission_denied", "invalid_argument", "out_of_range"} == handoff.FINAL_REFUSALS
