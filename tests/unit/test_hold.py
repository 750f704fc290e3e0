"""A large job waits a bounded time, however many small ones keep coming."""

import heapq
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iris_fed.decide.newjob import new_job
from iris_fed.decide.placement import Patience, Place, choose_places
from iris_fed.model.jobs import DemandQueue, Job, QueuedJob, Task
from iris_fed.model.resources import BackendSummary, NodeFree, NodeShape, Resources
from iris_fed.model.spec import JobSpec, Submission

CPUS = 8
MINUTE = 60_000
FOREVER = 10**12


@dataclass
class Cluster:
    """One node, a queue, and what runs until when. Time goes from event to event."""

    hold_after_ms: int
    now: int = 0
    free: int = CPUS
    queue: list[Job] = field(default_factory=list)
    running: list[tuple[int, int, int]] = field(default_factory=list)
    started: dict[int, int] = field(default_factory=dict)
    lasts: dict[int, int] = field(default_factory=dict)

    def submit(self, uid: int, cpus: int, lasts: int, replicas: int = 1, *, together: bool = False) -> None:
        group = "x" if together else None
        spec = JobSpec(("true",), Resources(cpus * 1000, 0), replicas=replicas, coscheduling_group_by=group)
        job = new_job(Submission("x", spec), f"/a/{uid}", "a", "a", self.now)
        self.queue.append(replace(job, uid=uid))
        self.lasts[uid] = lasts

    def place(self) -> None:
        by_demand: dict[str, list[QueuedJob]] = {}
        for job in self.queue:
            tasks = (Task(job_uid=job.uid, index=index, submitted_ms=0) for index in range(job.task_count))
            by_demand.setdefault(job.demand, []).append(QueuedJob(job, tasks))
        shape = NodeShape(CPUS * 1000, 2**40)
        summary = BackendSummary("p", "p", "local", largest_node=shape)
        place = Place(summary, (NodeFree("n", self.free * 1000, 2**40, {}, shape),))
        queues = [DemandQueue(demand, iter(jobs)) for demand, jobs in by_demand.items()]
        by_uid = {job.uid: job for job in self.queue}
        for placed in choose_places(queues, [place], self.now, Patience(256, self.hold_after_ms)).placed:
            job = by_uid[placed.job_uid]
            cpus = job.spec.resources.cpu_millicores // 1000
            self.free -= cpus
            heapq.heappush(self.running, (self.now + self.lasts[job.uid], job.uid, cpus))
            self.started.setdefault(job.uid, self.now)
        self.queue = [job for job in self.queue if job.uid not in self.started]

    def go_to(self, when: int) -> None:
        """Let end what ends until then, placing after each end."""
        while self.running and self.running[0][0] <= when:
            self.now, _, cpus = heapq.heappop(self.running)
            self.free += cpus
            self.place()
        self.now = when


def under_a_stream(
    hold_after_ms: int, longest: int, every: int, minutes: int, replicas: int = 1, *, together: bool = False
) -> Cluster:
    """Small jobs come without an end, more than the node can run; job 0 needs all of it."""
    cluster = Cluster(hold_after_ms)
    for uid in range(1, CPUS + 1):
        cluster.submit(uid, 1, longest * uid // CPUS)
    cluster.place()
    cluster.submit(0, CPUS // replicas, MINUTE, replicas, together=together)
    uid = CPUS
    while cluster.now < minutes * MINUTE and 0 not in cluster.started:
        uid += 1
        cluster.submit(uid, 1, longest - uid % 7)
        cluster.place()
        assert cluster.free >= 0
        cluster.go_to(cluster.now + every)
    return cluster


@pytest.mark.parametrize(("replicas", "together"), [(1, False), (4, True)])
def test_without_holding_a_large_job_would_starve(replicas: int, together: bool) -> None:
    cluster = under_a_stream(FOREVER, 5 * MINUTE, MINUTE // 2, minutes=600, replicas=replicas, together=together)
    assert 0 not in cluster.started
    assert len(cluster.started) > 500


@pytest.mark.parametrize(("replicas", "together"), [(1, False), (2, True), (8, True)])
@settings(max_examples=25, deadline=None)
@given(
    hold_after=st.integers(0, 30 * MINUTE), longest=st.integers(MINUTE, 20 * MINUTE), every=st.integers(5_000, MINUTE)
)
def test_a_large_job_waits_at_most_its_patience_and_the_longest_job_that_runs_then(
    replicas: int, together: bool, hold_after: int, longest: int, every: int
) -> None:
    cluster = under_a_stream(hold_after, longest, every, minutes=120, replicas=replicas, together=together)
    # The first pass after its patience is over comes with the next small job.
    assert cluster.started[0] <= hold_after + longest + every


def test_small_jobs_run_on_until_the_patience_of_the_large_one_is_over() -> None:
    cluster = under_a_stream(10 * MINUTE, MINUTE, MINUTE // 4, minutes=60)
    before = [at for uid, at in cluster.started.items() if uid and at < 10 * MINUTE]
    after = [at for uid, at in cluster.started.items() if uid and 10 * MINUTE <= at < cluster.started[0]]
    assert len(before) > 30
    assert after == []
