"""Whatever happens to a handoff, in whatever order, nothing is taken back and nothing runs twice."""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from iris_fed.decide import handoff, mirror
from iris_fed.decide.draft import Draft
from iris_fed.decide.mirror import Match
from iris_fed.decide.newjob import handed_to, new_job
from iris_fed.model.federation import Delta, SentHandle
from iris_fed.model.jobs import JobReport
from iris_fed.model.spec import JobSpec, Submission
from iris_fed.model.states import SENT_TRANSITIONS, JobState, SentState, job_ended

RARELY = st.integers(0, 3).map(lambda number: number == 3)
"""Of what ends a story, so that longer ones are told too."""


class HandoffMachine(RuleBasedStateMachine):
    """Rules are the steps of the outbox and of the feed, in any order that a network can make."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000
        job = handed_to(new_job(Submission("x", JobSpec(("true",))), "/a/x", "a", "a@lab", 1_000), "lab", "n1")
        self.draft = Draft(job)
        self.handle = SentHandle(
            nonce="n1", peer="lab", job_id="/a/x", remote_job_id="/a/hub.x", owner="a", submitting_user="a@lab",
            created_ms=1_000, expires_ms=9_000,
        )  # fmt: skip
        self.reported: set[JobState] = set()
        self.heard_of_cancel = False
        self.answerless = False

    def step(self, after: SentHandle) -> None:
        before, self.handle = self.handle, after
        self.now += 1
        if before.state is not after.state:
            assert after.state in SENT_TRANSITIONS[before.state]
        if before.state is SentState.CLOSED:
            assert after == before
        assert after.sent >= before.sent
        assert before.cancelled_ms in (None, after.cancelled_ms)

    @rule()
    @precondition(lambda self: self.handle.state is SentState.PENDING_HANDOFF and self.handle.cancelled_ms is None)
    def send(self) -> None:
        self.step(handoff.mark_sent(self.handle, "db"))

    @rule(luck=RARELY)
    @precondition(lambda self: self.handle.sent)
    def ack(self, luck: bool) -> None:
        if luck:
            self.step(handoff.on_ack(self.handle, self.draft, self.now))

    @rule(arrived=st.booleans())
    @precondition(lambda self: self.handle.sent and self.handle.state is not SentState.CLOSED)
    def no_answer(self, arrived: bool) -> None:
        if arrived and self.handle.state is SentState.PENDING_HANDOFF and self.handle.cancelled_ms is None:
            self.answerless = True
        self.step(
            handoff.on_no_answer(
                self.handle, self.draft, "down", arrived=arrived, now_ms=self.now, max_backoff_ms=9_000, jitter=0.5
            )
        )

    @rule()
    @precondition(lambda self: self.handle.sent)
    def refuse(self) -> None:
        self.step(handoff.on_refused(self.handle, self.draft, "no", self.now))

    @rule(luck=RARELY)
    @precondition(lambda self: self.handle.cancelled_ms is None)
    def expire(self, luck: bool) -> None:
        if luck:
            self.step(handoff.on_expired(self.handle, self.draft, self.now))

    @rule(luck=RARELY)
    def cancel(self, luck: bool) -> None:
        if luck and self.handle.state is not SentState.CLOSED:
            self.step(handoff.on_cancel(self.handle, self.draft, "bob", self.now))

    @rule(known=st.booleans())
    @precondition(lambda self: self.handle.sent and self.handle.cancelled_ms is not None)
    def hear_of_cancel(self, known: bool) -> None:
        self.heard_of_cancel = True
        done = handoff.on_cancel_acked if known else handoff.on_cancel_unknown
        self.step(done(self.handle, self.draft, self.now))

    @rule(luck=RARELY, state=st.sampled_from(JobState), tombstone=RARELY, told=st.booleans())
    @precondition(lambda self: self.handle.sent)
    def report(self, luck: bool, state: JobState, tombstone: bool, told: bool) -> None:
        if not luck:
            return
        report = JobReport(job_id="/a/hub.x", state=state, exit_code=0) if told else None
        delta = Delta(job_id="/a/hub.x", nonce="n1", tombstone=tombstone, report=report)
        if mirror.match_delta(delta, self.handle) is Match.FOLLOW:
            if report is not None:
                self.reported.add(state)
            self.step(mirror.follow(self.handle, self.draft, delta, self.now))

    @rule(later=st.integers(0, 1_000))
    @precondition(lambda self: self.handle.state is SentState.HANDED_OFF)
    def miss(self, later: int) -> None:
        self.now += later
        self.step(mirror.note_missing(self.handle, self.draft, self.now, 600, self.now))

    @rule(luck=RARELY)
    @precondition(lambda self: self.handle.state is SentState.PENDING_HANDOFF and self.handle.sent)
    def another_database_answers(self, luck: bool) -> None:
        if luck:
            self.step(replace(self.handle, state=SentState.HANDED_OFF, acked_ms=self.handle.created_ms))

    @invariant()
    def the_job_has_ended_exactly_when_its_handle_is_closed(self) -> None:
        assert job_ended(self.draft.job.state) == (self.handle.state is SentState.CLOSED)
        assert (self.handle.closed_ms is None) == (self.handle.state is not SentState.CLOSED)

    @invariant()
    def a_job_succeeds_only_by_the_peers_word(self) -> None:
        assert self.draft.job.state is not JobState.SUCCEEDED or JobState.SUCCEEDED in self.reported

    @invariant()
    def what_may_run_there_is_given_up_only_when_the_peer_has_spoken(self) -> None:
        if self.handle.state is SentState.CLOSED and self.answerless and self.handle.acked_ms is None:
            assert self.heard_of_cancel

    @invariant()
    def every_end_that_is_no_success_says_why_unless_the_peer_did_not(self) -> None:
        job = self.draft.job
        if job_ended(job.state) and job.state not in self.reported:
            assert job.error

    @invariant()
    def an_open_job_says_what_it_waits_for_while_it_is_not_accepted(self) -> None:
        if self.handle.state is SentState.PENDING_HANDOFF:
            assert self.draft.job.pending_reason


TestHandoffMachine = HandoffMachine.TestCase
TestHandoffMachine.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
