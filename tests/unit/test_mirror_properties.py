"""The sync decision, whatever a peer says in whatever order."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from iris_fed.decide import adoption, mirror
from iris_fed.decide.draft import Draft
from iris_fed.decide.mirror import Match
from iris_fed.decide.newjob import handed_to, new_job
from iris_fed.model.federation import Delta, SentHandle
from iris_fed.model.jobs import Attempt, AttemptReport, Job, JobReport, Task, TaskReport
from iris_fed.model.spec import JobSpec, Submission
from iris_fed.model.states import (
    TERMINAL_JOB_STATES,
    TERMINAL_TASK_STATES,
    JobState,
    SentState,
    TaskState,
)

REMOTE = "/a/hub.x"
REPLICAS = 3
MINE, ANOTHER = "mine.mac", "another.mac"


def sent(state: SentState = SentState.PENDING_HANDOFF, **changes: object) -> SentHandle:
    handle = SentHandle(
        nonce=MINE, peer="lab", job_id="/a/x", remote_job_id=REMOTE, owner="a", submitting_user="a@lab",
        created_ms=1, expires_ms=10**9, sent=True, state=state,
    )  # fmt: skip
    return replace(handle, **changes)  # type: ignore[arg-type]


@st.composite
def attempts(draw: st.DrawFn, state: TaskState, number: int) -> tuple[AttemptReport, ...]:
    """The earlier ones have failed; the last one is as its task."""
    ended = [
        AttemptReport(number=n, attempt_uid=f"u{n}", state=TaskState.FAILED, exit_code=1, started_ms=5, finished_ms=6)
        for n in range(number)
    ]
    finished_ms = draw(st.integers(7, 99)) if state in TERMINAL_TASK_STATES else None
    return (*ended, AttemptReport(number=number, attempt_uid=f"u{number}", state=state, finished_ms=finished_ms))


@st.composite
def tasks(draw: st.DrawFn) -> TaskReport:
    state, number = draw(st.sampled_from(TaskState)), draw(st.integers(0, 2))
    finished_ms = draw(st.integers(7, 99)) if state in TERMINAL_TASK_STATES else None
    return TaskReport(
        index=draw(st.integers(0, REPLICAS + 1)),
        state=state,
        current_attempt=number,
        finished_ms=finished_ms,
        attempts=draw(attempts(state, number)),
    )


@st.composite
def rows(draw: st.DrawFn) -> Delta:
    state = draw(st.sampled_from(JobState))
    finished_ms = draw(st.integers(7, 99) | st.none()) if state in TERMINAL_JOB_STATES else None
    report = JobReport(
        job_id=REMOTE,
        state=state,
        error=draw(st.sampled_from(["", "broke"])),
        pending_reason=draw(st.sampled_from(["", "no room"])),
        exit_code=draw(st.integers(0, 9) | st.none()),
        started_ms=draw(st.integers(1, 9) | st.none()),
        finished_ms=finished_ms,
        task_count=REPLICAS,
        failure_count=draw(st.integers(0, 3)),
    )
    tombstone = draw(st.booleans()) and state in TERMINAL_JOB_STATES
    return Delta(
        job_id=REMOTE,
        nonce=draw(st.sampled_from([MINE, MINE, MINE, ANOTHER])),
        tombstone=tombstone,
        report=draw(st.just(report) | st.none()) if tombstone else report,
        tasks=() if tombstone else tuple(draw(st.lists(tasks(), max_size=4, unique_by=lambda task: task.index))),
    )


class Parent:
    """What a parent keeps of the job, and what it does with a row."""

    def __init__(self, **marks: object) -> None:
        submission = Submission("x", JobSpec(("true",), replicas=REPLICAS))
        self.handle = sent(**marks)  # type: ignore[arg-type]
        self.job: Job = handed_to(new_job(submission, "/a/x", "a", "a@lab", 1), "lab", MINE)
        self.tasks: dict[int, Task] = {}
        self.attempts: dict[tuple[int, int], Attempt] = {}

    def hear(self, delta: Delta, now_ms: int) -> Match:
        match = mirror.match_delta(delta, self.handle if delta.nonce == MINE else None)
        if match is Match.FOLLOW:
            draft = Draft(self.job, self.tasks.values(), self.attempts.values())
            self.handle = mirror.follow(self.handle, draft, delta, now_ms)
            self.job, self.tasks, self.attempts = draft.job, draft.tasks, draft.attempts
        return match

    def picture(self) -> tuple[object, ...]:
        return self.handle, self.job, self.tasks, self.attempts


MARKS = st.fixed_dictionaries(
    {"unanswered": st.booleans(), "cancelled_ms": st.none() | st.just(2), "refusal": st.sampled_from(["", "no"])}
)


@given(st.lists(rows(), max_size=12), MARKS)
def test_an_end_never_changes_and_nothing_of_another_incarnation_is_believed(
    feed: list[Delta], marks: dict[str, object]
) -> None:
    parent = Parent(**marks)
    for now_ms, delta in enumerate(feed, start=100):
        before = parent.picture()
        match = parent.hear(delta, now_ms)
        closed = before[0].state is SentState.CLOSED  # type: ignore[attr-defined]
        if delta.nonce == ANOTHER or closed:
            assert parent.picture() == before
            assert match is not Match.FOLLOW
        over = parent.job.state in TERMINAL_JOB_STATES
        assert over == (parent.handle.state is SentState.CLOSED) == (parent.job.finished_ms is not None)


@given(st.lists(rows(), min_size=1, max_size=8), MARKS)
def test_hearing_a_row_again_changes_nothing(feed: list[Delta], marks: dict[str, object]) -> None:
    once, twice = Parent(**marks), Parent(**marks)
    for delta in feed:
        once.hear(delta, 100)
        twice.hear(delta, 100)
        twice.hear(delta, 100)
    assert once.picture() == twice.picture()


@given(st.lists(rows(), max_size=8), rows())
def test_the_last_row_about_a_job_is_what_is_shown_of_it(feed: list[Delta], last: Delta) -> None:
    last = replace(
        last, nonce=MINE, tombstone=False, report=last.report or JobReport(job_id=REMOTE, state=JobState.RUNNING)
    )
    parent = Parent()
    for delta in feed:
        parent.hear(delta, 100)
    if parent.handle.state is SentState.CLOSED:
        return
    parent.hear(last, 200)
    assert last.report is not None
    assert parent.job.state is last.report.state
    assert parent.handle.state is not SentState.PENDING_HANDOFF
    for told in last.tasks:
        if told.index < REPLICAS:
            shown = parent.tasks[told.index]
            assert (shown.state, shown.current_attempt) == (told.state, told.current_attempt)
            for attempt in told.attempts:
                assert parent.attempts[told.index, attempt.number].state is attempt.state
        else:
            assert told.index not in parent.tasks


@given(rows(), st.sampled_from(SentState), st.booleans())
def test_what_was_never_sent_is_never_believed_and_only_what_lives_is_a_stray(
    delta: Delta, state: SentState, was_sent: bool
) -> None:
    handle = sent(state, sent=was_sent)
    match = mirror.match_delta(delta, handle)
    alive = not delta.tombstone and delta.report is not None and delta.report.state not in TERMINAL_JOB_STATES
    assert (match is Match.UNKNOWN) == (not was_sent)
    assert (match is Match.STRAY) == (was_sent and state is SentState.CLOSED and alive)


@given(rows(), st.booleans())
def test_only_lost_is_taken_back(delta: Delta, lost: bool) -> None:
    parent = Parent(state=SentState.CLOSED, lost=lost)
    job = replace(parent.job, state=JobState.WORKER_FAILED, finished_ms=50)
    again = adoption.shows_lost_again(replace(delta, nonce=MINE), parent.handle, job)
    told = delta.report is not None and (not delta.tombstone or delta.report.finished_ms is not None)
    assert again == (lost and told)
