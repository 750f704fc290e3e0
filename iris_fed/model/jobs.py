"""Jobs, tasks and attempts as they stand in the database, and as they are shown.

Times are epoch milliseconds, None = not yet. Exit codes are 0-255 (128+n for a signal), None =
none is known.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from iris_fed.model.resources import Usage
from iris_fed.model.spec import JobSpec
from iris_fed.model.states import Band, JobState, PeerStatus, TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One incarnation of a job id.

    `requester` is the cluster that handed it to us ('' = our own user's), `cluster` the peer we
    handed it to ('' = it runs here), `nonce` names the handle in either case. `stop_state` is set
    once the job is being stopped: the state it takes when its last task has ended. Jobs of one
    `demand` ask for the same; `queued_tasks` of its tasks wait for a place here.
    """

    uid: int = 0
    job_id: str
    parent_uid: int | None = None
    user: str
    submitting_user: str
    spec: JobSpec
    band: Band
    state: JobState = JobState.PENDING
    error: str = ""
    exit_code: int | None = None
    pending_reason: str = ""
    submitted_ms: int
    started_ms: int | None = None
    finished_ms: int | None = None
    failure_count: int = 0
    preemption_count: int = 0
    task_count: int
    demand: str = ""
    queued_tasks: int = 0
    scheduling_deadline_ms: int | None = None
    cancel_requested_ms: int | None = None
    stop_state: JobState | None = None
    bundle_id: str = ""
    requester: str = ""
    nonce: str = ""
    cluster: str = ""
    backend_id: str = ""
    peer_status: PeerStatus = PeerStatus.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One replica. `current_attempt` is -1 before the first; `not_before_ms` is a retry's back-off."""

    job_uid: int
    index: int
    state: TaskState = TaskState.PENDING
    current_attempt: int = -1
    exit_code: int | None = None
    error: str = ""
    pending_reason: str = ""
    submitted_ms: int
    started_ms: int | None = None
    finished_ms: int | None = None
    failure_count: int = 0
    preemption_count: int = 0
    not_before_ms: int = 0
    backend_id: str = ""
    requester: str = ""
    nonce: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try at a task. `mirrored`: it runs on a peer, and is only told of here."""

    job_uid: int
    task_index: int
    number: int
    attempt_uid: str
    state: TaskState = TaskState.ASSIGNED
    backend_id: str = ""
    node: str = ""
    address: str = ""
    devices: tuple[int, ...] = ()
    ports: Mapping[str, int] = field(default_factory=dict)
    exit_code: int | None = None
    error: str = ""
    terminal_reason: str = ""
    files_gone: bool = False
    is_worker_failure: bool = False
    created_ms: int
    started_ms: int | None = None
    finished_ms: int | None = None
    kill_requested_ms: int | None = None
    usage: Usage = field(default_factory=Usage)
    mirrored: bool = False


@dataclass(frozen=True, slots=True)
class LiveAttempt:
    """An attempt that occupies a place here. `kill` = its end was asked for."""

    attempt_uid: str
    job_uid: int
    task_index: int
    number: int
    backend_id: str
    state: TaskState
    kill: bool


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job with tasks that wait for a place here; `tasks` may be read once, lowest index first."""

    job: Job
    tasks: Iterator[Task]


@dataclass(frozen=True, slots=True)
class DemandQueue:
    """All waiting jobs of one demand, in the order in which they deserve a place; to be read once."""

    demand: str
    jobs: Iterator[QueuedJob]


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Something that happened to a job, in words for its user. `task_index` None = the job."""

    job_uid: int
    time_ms: int
    kind: str
    message: str
    task_index: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job with what is counted over its tasks. Keys of `task_counts` are TaskState names.
    `retained_until_ms`: when a finished job will be removed; None = not told."""

    job: Job
    task_counts: Mapping[str, int] = field(default_factory=dict)
    has_children: bool = False
    parent_job_id: str = ""
    retained_until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """A task with its attempts, oldest first. `cluster` '' = it runs here."""

    job_id: str
    task: Task
    attempts: tuple[Attempt, ...] = ()
    cluster: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """What a peer says of a job: the payload that a mirror is made of."""

    job_id: str
    state: JobState
    exit_code: int | None = None
    error: str = ""
    pending_reason: str = ""
    submitted_ms: int | None = None
    started_ms: int | None = None
    finished_ms: int | None = None
    failure_count: int = 0
    preemption_count: int = 0
    task_count: int = 0
    parent_job_id: str = ""
    backend_id: str = ""
    submitting_user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReport:
    """What a peer says of an attempt."""

    number: int
    attempt_uid: str
    state: TaskState
    node: str = ""
    exit_code: int | None = None
    error: str = ""
    terminal_reason: str = ""
    is_worker_failure: bool = False
    started_ms: int | None = None
    finished_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """What a peer says of a task: the whole of it, attempts included."""

    index: int
    state: TaskState
    current_attempt: int = -1
    exit_code: int | None = None
    error: str = ""
    pending_reason: str = ""
    submitted_ms: int | None = None
    started_ms: int | None = None
    finished_ms: int | None = None
    backend_id: str = ""
    address: str = ""
    ports: Mapping[str, int] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    attempts: tuple[AttemptReport, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """A listing. Empty text or set = no filter; `cluster` 'local' = only jobs that run here.

    `sort` is one of date, name, state, failures, preemptions. `limit` is bounded by the edge.
    `after` goes on behind the row with these sort values (from `JobPage.next_after`); `offset` is
    ignored then. `owner` is the only user whose jobs are listed, and then without those that other clusters
    handed over; None = everybody's.
    """

    scope: str = "all"
    parent_job_id: str = ""
    name_contains: str = ""
    states: frozenset[JobState] = frozenset()
    job_id_prefix: str = ""
    backend_id: str = ""
    cluster: str = ""
    sort: str = "date"
    descending: bool = True
    offset: int = 0
    limit: int = 100
    after: tuple[str | int, ...] = ()
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class JobPage:
    """One page of a listing; `total` counts every match. `next_after` is empty on the last page."""

    jobs: tuple[JobView, ...]
    total: int
    has_more: bool
    next_after: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class UserSummary:
    """Jobs and tasks of one user, counted by the names of their states."""

    user: str
    job_counts: Mapping[str, int]
    task_counts: Mapping[str, int]
