"""Who asks, and in which role."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What kind of caller it is (design, section 7)."""

    ADMIN = "admin"
    USER = "user"
    DASHBOARD = "dashboard"
    FEDERATION_PEER = "federation-peer"
    JOB = "job"


class Source(StrEnum):
    """By which credential a caller proved who it is."""

    ADMIN_TOKEN = "admin-token"
    USER_TOKEN = "user-token"
    TASK_TOKEN = "task-token"
    FEDERATION_TOKEN = "federation-token"
    IAP = "iap"
    SESSION = "session"
    NETWORK = "network"


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated caller. `principal` is what it proved to be (an e-mail, a user, a cluster);
    `user` is the user segment of its own jobs, '' = it can have none; `requester` its cluster's name when
    it is a peer; `subtree` the id of its own job when it is a task; `expires_ms` the end of its own
    user token or session (epoch ms), None = it came by something else."""

    principal: str
    user: str
    role: Role
    requester: str = ""
    subtree: str = ""
    source: Source = Source.ADMIN_TOKEN
    expires_ms: int | None = None

    def may_reach(self, job_id: str) -> bool:
        """A task knows only its own job and what is below it; everybody else is asked elsewhere."""
        return self.role is not Role.JOB or job_id == self.subtree or job_id.startswith(self.subtree + "/")
