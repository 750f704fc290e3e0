"""What becomes of an incarnation of ours that the database does not know."""

from dataclasses import replace

import pytest

from iris_fed.decide.adoption import (
    Adoption,
    Terms,
    adopted_handle,
    adopted_job,
    choose_adoption,
    give_way,
    shows_lost_again,
    take_back_lost,
)
from iris_fed.decide.draft import Draft
from iris_fed.errors import IllegalTransition
from iris_fed.model.federation import Delta, SentHandle
from iris_fed.model.jobs import Job, JobReport
from iris_fed.model.spec import JobSpec
from iris_fed.model.states import Band, ExistingJobPolicy, JobState, PeerStatus, SentState

DAY_MS = 86_400_000
NOW = 100 * DAY_MS
TERMS = Terms("lab", asked_ms=NOW - 10, now_ms=NOW, retention_ms=30 * DAY_MS)
REMOTE, LOCAL = "/alice/hub.train", "/alice/train"


def row(state: JobState = JobState.RUNNING, *, finished_ms: int | None = None, tombstone: bool = False) -> Delta:
    report = JobReport(job_id=REMOTE, state=state, finished_ms=finished_ms, task_count=2, submitting_user="a@x.org")
    return Delta(job_id=REMOTE, nonce="n0.mac", tombstone=tombstone, report=report)


def ended(ago_ms: int = 1000, *, tombstone: bool = False) -> Delta:
    return row(JobState.SUCCEEDED, finished_ms=NOW - ago_ms, tombstone=tombstone)


def job(state: JobState = JobState.PENDING, *, cluster: str = "lab", finished_ms: int | None = None) -> Job:
    return Job(
        uid=7,
        job_id=LOCAL,
        user="alice",
        submitting_user="a@x.org",
        spec=JobSpec(argv=("true",)),
        band=Band.INTERACTIVE,
        state=state,
        submitted_ms=1,
        finished_ms=finished_ms,
        task_count=1,
        cluster=cluster,
        nonce="n1.mac" if cluster else "",
        peer_status=PeerStatus.ASSIGNED if cluster else PeerStatus.NONE,
    )


def handle(
    state: SentState = SentState.PENDING_HANDOFF,
    *,
    peer: str = "lab",
    sent: bool = False,
    acked_ms: int | None = None,
    policy: ExistingJobPolicy = ExistingJobPolicy.UNSPECIFIED,
    lost: bool = False,
) -> SentHandle:
    return SentHandle(
        nonce="n1.mac",
        peer=peer,
        job_id=LOCAL,
        remote_job_id=REMOTE,
        state=state,
        owner="alice",
        submitting_user="a@x.org",
        sent=sent,
        acked_ms=acked_ms,
        policy=policy,
        created_ms=1,
        expires_ms=NOW + DAY_MS,
        lost=lost,
    )


ACKED_BEFORE = handle(SentState.HANDED_OFF, sent=True, acked_ms=TERMS.asked_ms - 1)


@pytest.mark.parametrize(
    ("delta", "here", "open_handle", "choice"),
    [
        (row(), None, None, Adoption.ADOPT),
        (ended(), None, None, Adoption.ADOPT),
        (ended(tombstone=True), None, None, Adoption.ADOPT),
        (ended(31 * DAY_MS), None, None, Adoption.PASS),
        (row(JobState.KILLED, tombstone=True), None, None, Adoption.PASS),
        (Delta(job_id=REMOTE, nonce="n0.mac", tombstone=True), None, None, Adoption.PASS),
        (row(), job(JobState.FAILED, finished_ms=NOW - 5), None, Adoption.ADOPT),
        (row(), job(JobState.FAILED, cluster="", finished_ms=NOW - 5), None, Adoption.ADOPT),
        (ended(1000), job(JobState.FAILED, finished_ms=NOW - 2000), None, Adoption.ADOPT),
        (ended(1000), job(JobState.FAILED, finished_ms=NOW - 500), None, Adoption.PASS),
        (ended(tombstone=True), job(JobState.FAILED, finished_ms=1), None, Adoption.PASS),
        (row(), job(cluster=""), None, Adoption.ORPHAN),
        (ended(), job(cluster=""), None, Adoption.PASS),
        (row(), job(cluster="gpu"), handle(peer="gpu"), Adoption.ORPHAN),
        (row(), job(), ACKED_BEFORE, Adoption.GIVE_WAY),
        (ended(), job(), ACKED_BEFORE, Adoption.GIVE_WAY),
        (row(), job(), handle(SentState.HANDED_OFF, sent=True, acked_ms=TERMS.asked_ms), Adoption.LATER),
        (row(), job(), handle(), Adoption.GIVE_WAY),
        (row(), job(), handle(policy=ExistingJobPolicy.RECREATE), Adoption.LATER),
        (row(), job(), handle(sent=True), Adoption.LATER),
        (ended(), job(), handle(), Adoption.PASS),
    ],
)
def test_a_name_that_is_free_is_given_back_and_one_in_use_is_respected(
    delta: Delta, here: Job | None, open_handle: SentHandle | None, choice: Adoption
) -> None:
    assert choose_adoption(delta, here, open_handle, TERMS) is choice


def test_an_adopted_job_belongs_to_the_user_of_its_name_and_says_how_it_came_here() -> None:
    delta = row()
    adopted = adopted_handle(delta, LOCAL, "alice", "db1", TERMS)
    assert (adopted.state, adopted.sent, adopted.adopted) == (SentState.HANDED_OFF, True, True)
    assert delta.report is not None
    made, event = adopted_job(adopted, delta.report, NOW)
    assert (made.job_id, made.user, made.submitting_user, made.task_count) == (LOCAL, "alice", "a@x.org", 2)
    assert (made.cluster, made.nonce) == ("lab", "n0.mac")
    assert "adopted" in event.message


def test_a_handle_that_gives_way_closes_and_its_job_becomes_the_other_incarnation() -> None:
    delta = row()
    adopted = adopted_handle(delta, LOCAL, "alice", "db1", TERMS)
    draft = Draft(job())
    assert delta.report is not None
    closed = give_way(ACKED_BEFORE, adopted, draft, delta.report, NOW)
    assert (closed.state, closed.lost) == (SentState.CLOSED, False)
    assert (draft.job.nonce, draft.job.task_count, draft.ended) == ("n0.mac", 2, False)


LOST = handle(SentState.CLOSED, sent=True, lost=True)
LOST_JOB = job(JobState.WORKER_FAILED, finished_ms=NOW - 5)


def shown(delta: Delta, one: SentHandle | None = LOST, here: Job | None = LOST_JOB) -> bool:
    return shows_lost_again(delta, one, here)


def test_only_news_of_the_lost_incarnation_itself_takes_the_loss_back() -> None:
    assert shown(row())
    assert shown(ended())
    assert shown(ended(tombstone=True))
    assert not shown(row(JobState.KILLED, tombstone=True)), "a fence proves nothing"
    assert not shown(Delta(job_id=REMOTE, nonce="n1.mac", tombstone=True))
    assert not shown(row(), handle(SentState.CLOSED, sent=True))
    assert not shown(row(), here=None)
    assert not shown(row(), here=replace(LOST_JOB, nonce="n2.mac"))


def test_a_job_found_again_is_unfinished_and_a_cancel_of_it_is_told_again() -> None:
    draft = Draft(LOST_JOB)
    back = take_back_lost(LOST, draft, NOW)
    assert (back.state, back.lost, back.cancel_acked, back.closed_ms) == (SentState.HANDED_OFF, False, False, None)
    assert (draft.job.state, draft.job.finished_ms, draft.job.error) == (JobState.PENDING, None, "")


def test_what_is_found_again_counts_as_acknowledged_though_its_delivery_was_never_answered() -> None:
    unanswered = replace(LOST, acked_ms=None, unanswered=True)
    back = take_back_lost(unanswered, Draft(LOST_JOB), NOW)
    assert (back.acked_ms, back.unanswered) == (NOW, False), "else no full set could show that it is gone"
    assert take_back_lost(replace(LOST, acked_ms=7), Draft(LOST_JOB), NOW).acked_ms == 7


@pytest.mark.parametrize("one", [job(JobState.SUCCEEDED, finished_ms=1), job(JobState.RUNNING)])
def test_no_other_end_is_ever_taken_back(one: Job) -> None:
    with pytest.raises(IllegalTransition):
        take_back_lost(LOST, Draft(one), NOW)
