"""What a user asks to be run: the whole of a submission, independent of where it ends up."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from iris_fed.model.constraints import BACKEND_KEY, CLUSTER_KEY, Constraint, Scalar, implied_by
from iris_fed.model.resources import Resources
from iris_fed.model.states import Band, ExistingJobPolicy

TERMINATE_CHILDREN = 1
"""Preemption policy (wire contract): a preempted task takes the job's children with it, and its next
attempt submits them anew. By any other they go on."""
SECRET_FILE = "file:"
"""A secret `file:NAME` is a file of the task, NAME in its secrets directory; any other is a variable."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Durations in milliseconds (None = no limit). The job is `replicas` tasks of `argv`.

    `max_retries_*` are per task; `max_task_failures` is how many failed tasks the job survives.
    Text fields that only an engine can honour are empty when not asked for.
    """

    argv: tuple[str, ...]
    resources: Resources = field(default_factory=Resources)
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    constraints: tuple[Constraint, ...] = ()
    ports: tuple[str, ...] = ()
    replicas: int = 1
    timeout_ms: int | None = None
    scheduling_timeout_ms: int | None = None
    setup_timeout_ms: int | None = None
    max_retries_failure: int = 0
    max_retries_preemption: int = 0
    max_task_failures: int = 0
    setup_commands: tuple[str, ...] = ()
    setup_scripts: tuple[str, ...] = ()
    workdir_files: Mapping[str, bytes] = field(default_factory=dict)
    bundle_id: str = ""
    coscheduling_group_by: str | None = None
    preemption_policy: int = 0
    task_image: str = ""
    container_profile: int = 0
    egress_policy: int = 0
    submit_argv: tuple[str, ...] = ()
    client_revision_date: str = ""

    @property
    def cluster_pin(self) -> str | None:
        return _pin(self.constraints, CLUSTER_KEY)

    @property
    def backend_pin(self) -> str | None:
        return _pin(self.constraints, BACKEND_KEY)

    @property
    def demand(self) -> str:
        """A key that is equal for jobs which ask for the same resources under the same constraints."""
        constraints = sorted(repr(c) for c in self.constraints if c.key != CLUSTER_KEY)
        gang = (self.coscheduling_group_by, self.replicas) if self.is_gang else None
        return sha256(repr((self.resources, constraints, gang)).encode()).hexdigest()[:16]

    @property
    def is_gang(self) -> bool:
        """All replicas start together or none does."""
        return self.coscheduling_group_by is not None

    @property
    def routing_constraints(self) -> tuple[Constraint, ...]:
        """Every hard constraint that a place must satisfy, those of the device included, no pins."""
        explicit = tuple(c for c in self.constraints if not c.preferred and c.key not in (CLUSTER_KEY, BACKEND_KEY))
        return implied_by(self.resources) + explicit


@dataclass(frozen=True, slots=True)
class Handoff:
    """A parent's words on delivery (wire contract, "Handoff"). `database_id` and `expires_ms` are
    our extensions; empty or None when an Iris parent sent none."""

    requester: str
    owner: str
    submitting_user: str
    nonce: str
    database_id: str = ""
    expires_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """One LaunchJob: `name` is a whole job id. `band` None = inherit."""

    name: str
    spec: JobSpec
    policy: ExistingJobPolicy = ExistingJobPolicy.UNSPECIFIED
    band: Band | None = None
    bundle: bytes = b""
    handoff: Handoff | None = None


def _pin(constraints: tuple[Constraint, ...], key: str) -> str | None:
    for constraint in constraints:
        if constraint.key == key:
            value: Scalar = constraint.values[0]
            return str(value)
    return None
