"""Whatever happens to a job, in whatever order, its parts agree with each other."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from iris_fed.decide import lifecycle
from iris_fed.decide.draft import Draft
from iris_fed.decide.newjob import new_job
from iris_fed.model.jobs import Attempt, Job, Task
from iris_fed.model.observed import AttemptEnd, Ended, EndKind, Running, Sampled
from iris_fed.model.resources import Usage
from iris_fed.model.spec import JobSpec, Submission
from iris_fed.model.states import LIVE_TASK_STATES, TERMINAL_TASK_STATES, JobState, TaskState, job_ended, task_ended

ENDS = st.sampled_from(
    [
        # As often as all failures together, so that many jobs come to a good end.
        *[AttemptEnd(EndKind.EXITED, 0)] * 6,
        AttemptEnd(EndKind.EXITED, 3),
        AttemptEnd(EndKind.SIGNALED, 137, 9),
        AttemptEnd(EndKind.KILLED, 143, 15),
        AttemptEnd(EndKind.TIMED_OUT),
        AttemptEnd(EndKind.OUT_OF_MEMORY, 137),
        AttemptEnd(EndKind.PREEMPTED),
        AttemptEnd(EndKind.NOT_STARTED, 127),
        AttemptEnd(EndKind.NO_CAPACITY),
        AttemptEnd(EndKind.LOST),
    ]
)
PICK = st.integers(0, 10**6)


class JobMachine(RuleBasedStateMachine):
    """Each rule is one event, applied as the controller does: the whole draft, then `stop_failing`."""

    draft: Draft
    now = 1_000
    rounds = 0
    ended: Job | None = None

    @initialize(
        replicas=st.integers(1, 3),
        failure=st.integers(0, 2),
        preemption=st.integers(0, 2),
        lost=st.integers(0, 2),
        gang=st.booleans(),
    )
    def submit(self, replicas: int, failure: int, preemption: int, lost: int, gang: bool) -> None:
        spec = JobSpec(
            ("true",),
            replicas=replicas,
            max_retries_failure=failure,
            max_retries_preemption=preemption,
            max_task_failures=lost,
            coscheduling_group_by="rack" if gang else None,
        )
        job = new_job(Submission("/a/b", spec), "/a/b", "a", "a@lab", self.now)
        self.draft = Draft(job, [Task(job_uid=0, index=index, submitted_ms=self.now) for index in range(replicas)])

    @rule(pick=PICK)
    def place(self, pick: int) -> None:
        waiting = [index for index, task in self.draft.tasks.items() if task.state is TaskState.PENDING]
        together = self.draft.job.spec.is_gang
        if not waiting or not self.draft.queued_tasks or (together and self._live()):
            return
        self._tick()
        self.rounds += 1
        for index in waiting if together else [waiting[pick % len(waiting)]]:
            lifecycle.assign(self.draft, index, f"{index}@{self.now}", "local", "node", self.now)

    @rule(pick=PICK)
    def see_running(self, pick: int) -> None:
        if self.draft.attempts:
            self._tick()
            key = self._attempt(pick)
            uid = self.draft.attempts[key].attempt_uid
            lifecycle.on_running(self.draft, key, Running(uid, self.now, "node"), self.now)
            lifecycle.on_sampled(self.draft, key, Sampled(uid, Usage(memory_bytes=pick)))

    @rule(pick=PICK, how=ENDS, jitter=st.floats(0, 0.99))
    def see_ended(self, pick: int, how: AttemptEnd, jitter: float) -> None:
        if self.draft.attempts:
            self._tick()
            key = self._attempt(pick)
            attempt = self.draft.attempts[key]
            started = None if how.kind in (EndKind.NOT_STARTED, EndKind.NO_CAPACITY) else attempt.created_ms
            lifecycle.on_ended(self.draft, key, Ended(attempt.attempt_uid, how, started, self.now), self.now, jitter)
            if lifecycle.failing(self.draft):
                lifecycle.stop_failing(self.draft, self.now)

    @rule(luck=st.integers(0, 3))
    def cancel(self, luck: int) -> None:
        if luck == 3:
            self._tick()
            lifecycle.request_cancel(self.draft, "bob", self.now)

    @rule(luck=st.integers(0, 3))
    def wait_too_long(self, luck: int) -> None:
        if luck == 3 and self.draft.job.started_ms is None and self.draft.job.stop_state is None:
            self._tick()
            lifecycle.request_stop(self.draft, JobState.UNSCHEDULABLE, "not started in time", self.now)

    @invariant()
    def a_job_has_ended_exactly_when_all_its_tasks_have(self) -> None:
        job = self.draft.job
        assert job_ended(job.state) == all(task_ended(task.state) for task in self.draft.tasks.values())
        assert job_ended(job.state) == (job.finished_ms is not None)
        for task in self.draft.tasks.values():
            assert task_ended(task.state) == (task.finished_ms is not None)

    @invariant()
    def counts_are_those_of_the_tasks(self) -> None:
        assert +self.draft.counts == Counter(task.state for task in self.draft.tasks.values())
        assert min(self.draft.counts.values(), default=0) >= 0

    @invariant()
    def a_task_has_a_live_attempt_exactly_while_it_is_live_itself_and_never_two(self) -> None:
        for index, task in self.draft.tasks.items():
            live = [
                n for (i, n), a in self.draft.attempts.items() if i == index and a.state not in TERMINAL_TASK_STATES
            ]
            assert live == ([task.current_attempt] if task.state in LIVE_TASK_STATES else [])

    @invariant()
    def nothing_ends_before_it_starts(self) -> None:
        things: list[Job | Task | Attempt] = [self.draft.job, *self.draft.tasks.values(), *self.draft.attempts.values()]
        for thing in things:
            if thing.started_ms is not None and thing.finished_ms is not None:
                assert thing.started_ms <= thing.finished_ms

    @invariant()
    def a_job_says_running_exactly_when_a_task_runs(self) -> None:
        if not self.draft.ended:
            assert (self.draft.job.state is JobState.RUNNING) == (self.draft.counts[TaskState.RUNNING] > 0)

    @invariant()
    def a_stopped_job_has_no_task_waiting_and_no_attempt_left_in_peace(self) -> None:
        if self.draft.job.stop_state is not None:
            assert self.draft.counts[TaskState.PENDING] == 0
            for attempt in self.draft.attempts.values():
                assert attempt.state in TERMINAL_TASK_STATES or attempt.kill_requested_ms is not None

    @invariant()
    def budgets_are_never_overdrawn(self) -> None:
        spec = self.draft.job.spec
        for task in self.draft.tasks.values():
            assert task.failure_count <= spec.max_retries_failure + 1
            assert task.preemption_count <= spec.max_retries_preemption + 1
        assert self.draft.job.failure_count == sum(task.failure_count for task in self.draft.tasks.values())

    @invariant()
    def members_of_a_gang_run_together_or_are_being_stopped_for_the_next_round(self) -> None:
        if self.draft.job.spec.is_gang and self.draft.counts[TaskState.PENDING]:
            assert all(attempt.kill_requested_ms is not None for attempt in self._live())

    @invariant()
    def a_round_of_a_gang_is_charged_once(self) -> None:
        job = self.draft.job
        if job.spec.is_gang and job.stop_state is None:
            assert job.failure_count + job.preemption_count <= self.rounds

    @invariant()
    def only_a_gang_ends_an_attempt_for_anothers_sake(self) -> None:
        states = {attempt.state for attempt in self.draft.attempts.values()}
        assert self.draft.job.spec.is_gang or TaskState.COSCHED_FAILED not in states

    @invariant()
    def a_gang_succeeds_only_with_all_its_members(self) -> None:
        if self.draft.job.spec.is_gang and self.draft.job.state is JobState.SUCCEEDED:
            assert self.draft.counts[TaskState.SUCCEEDED] == self.draft.job.task_count

    @invariant()
    def an_end_is_kept(self) -> None:
        if self.ended is not None:
            assert self.draft.job == self.ended
        elif self.draft.ended:
            self.ended = self.draft.job
            succeeded = self.draft.job.state is JobState.SUCCEEDED
            assert succeeded == (self.draft.job.error == "")
            assert succeeded == (self.draft.job.exit_code == 0)

    def _live(self) -> list[Attempt]:
        return [attempt for attempt in self.draft.attempts.values() if attempt.state in LIVE_TASK_STATES]

    def _attempt(self, pick: int) -> tuple[int, int]:
        keys = sorted(self.draft.attempts)
        return keys[pick % len(keys)]

    def _tick(self) -> None:
        self.now += 1


TestJobMachine = JobMachine.TestCase
TestJobMachine.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
