"""Handles, and the words of FederationSync, as plain values.

A handle is one incarnation of a handoff, named by its nonce (design, section 6). Times are epoch
milliseconds, None = not yet.
"""

from dataclasses import dataclass, replace

from iris_fed.model.jobs import JobReport, JobView, TaskReport, TaskView
from iris_fed.model.resources import BackendSummary
from iris_fed.model.states import ExistingJobPolicy, JobState, ReceivedState, SentState


@dataclass(frozen=True, slots=True, kw_only=True)
class SentHandle:
    """On the parent. `sent` and `cancelled_ms` are never taken back.

    `unanswered`: a delivery left and no answer is known, so it may have arrived.
    `cancel_acked`: the peer has heard of the cancel. `missing_since_ms`: a full set lacked it then.
    `lost`: it was closed because the peer no longer knew it.
    `refusal`: why the handoff is over, or will be once the peer has heard that it must not run it.
    `database_id` is the peer's that the last delivery was meant for.
    `deliveries` counts requests that were about to leave, `tries` failures in a row of what is to be sent now.
    """

    nonce: str
    peer: str
    job_id: str
    remote_job_id: str
    state: SentState = SentState.PENDING_HANDOFF
    policy: ExistingJobPolicy = ExistingJobPolicy.UNSPECIFIED
    owner: str
    submitting_user: str
    sent: bool = False
    unanswered: bool = False
    cancelled_ms: int | None = None
    cancel_acked: bool = False
    created_ms: int
    expires_ms: int
    acked_ms: int | None = None
    database_id: str = ""
    closed_ms: int | None = None
    deliveries: int = 0
    tries: int = 0
    next_try_ms: int = 0
    last_error: str = ""
    refusal: str = ""
    missing_since_ms: int | None = None
    lost: bool = False
    adopted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedHandle:
    """On the peer: replay record, fence and tombstone in one. `end_*` say how the job ended, once it is
    gone; a fence has none."""

    nonce: str
    requester: str
    job_id: str
    state: ReceivedState
    owner: str = ""
    submitting_user: str = ""
    created_ms: int
    closed_ms: int | None = None
    end_state: JobState | None = None
    end_error: str = ""
    end_exit_code: int | None = None
    end_finished_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """`cursor` '' = from the beginning; `wait_ms` 0 = answer at once; `max_deltas` 0 = all at once."""

    requester: str
    cursor: str = ""
    wait_ms: int = 0
    max_deltas: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedDelta:
    """One changed job as the peer tells it. `view` None = not known any more.

    `tombstone` with an `end` says how a pruned or fenced incarnation ended.
    """

    job_id: str
    nonce: str
    tombstone: bool = False
    view: JobView | None = None
    end: JobReport | None = None
    tasks: tuple[TaskView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedChanges:
    """The peer's answer to one FederationSync."""

    deltas: tuple[ServedDelta, ...]
    next_cursor: str
    cursor_stale: bool
    more: bool
    database_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """One changed job as the parent hears it. `nonce` '' = a peer without our extension.

    `report` None = tombstone of which nothing more is known.
    """

    job_id: str
    nonce: str
    tombstone: bool = False
    report: JobReport | None = None
    tasks: tuple[TaskReport, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """`database_id` '' = a peer without our extensions. `unreadable` rows were skipped."""

    deltas: tuple[Delta, ...]
    next_cursor: str
    cursor_stale: bool = False
    more: bool = False
    long_poll: bool = False
    database_id: str = ""
    backends: tuple[BackendSummary, ...] | None = None
    unreadable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerState:
    """What is remembered of a peer across restarts.

    `full_set_done`: a full set was applied by this database. `backends_ms`: age of `backends`.
    `lost_contact_ms`: the first failure since the last success, None = reachable. `synced_ms`: the last
    answer after which no change was waiting there.
    """

    peer: str
    cursor: str = ""
    database_id: str = ""
    full_set_done: bool = False
    last_contact_ms: int | None = None
    lost_contact_ms: int | None = None
    last_error: str = ""
    backends: tuple[BackendSummary, ...] | None = None
    backends_ms: int | None = None
    synced_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A peer would not take a job: which, why in one sentence, and when."""

    words: str
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerView:
    """A peer as ListPeers shows it. `orphans`: ids of jobs that it runs for this cluster, which does not
    follow them since their names are in use here. `waiting_deliveries`: jobs that it has not taken yet, or may
    have taken; None = not told."""

    peer_id: str
    address: str
    reachable: bool
    last_contact_ms: int | None
    unreachable_since_ms: int | None
    active_jobs: int
    backends: tuple[BackendSummary, ...]
    backends_observed_ms: int | None
    last_error: str
    orphans: tuple[str, ...] = ()
    synced_ms: int | None = None
    waiting_deliveries: int | None = None
    last_refusal: Refusal | None = None

    def without_jobs(self) -> "PeerView":
        """For whoever may not know of everybody's jobs."""
        return replace(self, active_jobs=0, orphans=(), waiting_deliveries=None, last_refusal=None)


@dataclass(frozen=True, slots=True)
class PeerShape:
    """What routing knows of a peer. `backends` None = it was never heard of yet."""

    name: str
    reachable: bool
    backends: tuple[BackendSummary, ...] | None


@dataclass(frozen=True, slots=True)
class CheckStep:
    """One step of `peer check`, with a sentence for the operator."""

    step: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Admission:
    """A peer's answer to: would you take this submitter's jobs?"""

    cluster: str
    admitted: bool
    reason: str
