"""Names of jobs and tasks, and how a parent's name becomes the peer's.

`/<user>/<job>[/<child>...]` names a job; that and `/<index>` names a task (wire contract,
"Job id"). Names never become paths on disk.
"""

import re
from dataclasses import dataclass

from iris_fed.errors import InvalidArgument

MAX_COMPONENT_CHARS = 128
MAX_JOB_ID_CHARS = 512
_CLUSTER_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_TASK_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class JobId:
    """A job's name, taken apart. `parts[0]` is the user."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return "/" + "/".join(self.parts)

    @property
    def user(self) -> str:
        return self.parts[0]

    @property
    def name(self) -> str:
        return self.parts[-1]

    @property
    def is_root(self) -> bool:
        return len(self.parts) == 2

    @property
    def root(self) -> "JobId":
        return JobId(self.parts[:2])

    @property
    def parent(self) -> "JobId | None":
        return None if self.is_root else JobId(self.parts[:-1])


def parse_job_id(text: str, field: str = "job_id") -> JobId:
    """Raises InvalidArgument, naming `field`, unless `text` is a legal job id."""
    if not text.startswith("/"):
        raise InvalidArgument(f"a job id looks like /<user>/<job>, not {text[:80]!r}", field)
    if len(text) > MAX_JOB_ID_CHARS:
        raise InvalidArgument(f"a job id has at most {MAX_JOB_ID_CHARS} characters, this one {len(text)}", field)
    parts = tuple(text[1:].split("/"))
    if len(parts) < 2:
        raise InvalidArgument(f"a job id looks like /<user>/<job>, not {text[:80]!r}", field)
    for part in parts:
        check_component(part, field)
    for part in parts[2:]:
        if part.isdecimal():
            raise InvalidArgument(f"{part!r} below a root job names a task, so it cannot name a child job", field)
    return JobId(parts)


def parse_task_id(text: str, field: str = "task_id") -> tuple[JobId, int]:
    """The job and the task's zero-based index. Raises InvalidArgument, naming `field`."""
    head, _, last = text.rpartition("/")
    if not head or not _TASK_INDEX.fullmatch(last):
        raise InvalidArgument(f"a task id looks like /<user>/<job>/<index>, not {text[:80]!r}", field)
    return parse_job_id(head, field), int(last)


def task_id(job_id: str, index: int) -> str:
    return f"{job_id}/{index}"


def is_task_id(text: str) -> bool:
    """True when `text` can only name a task: digits stand below a root job."""
    return text.count("/") >= 3 and bool(_TASK_INDEX.fullmatch(text.rpartition("/")[2]))


def check_component(part: str, field: str) -> None:
    """One segment of a name: printable, bounded, no `/`, not `.` or `..`, no blank edge."""
    if not part:
        raise InvalidArgument("a name has an empty part", field)
    if len(part) > MAX_COMPONENT_CHARS:
        raise InvalidArgument(f"a part of a name has at most {MAX_COMPONENT_CHARS} characters, not {len(part)}", field)
    if part in (".", "..") or "/" in part or not part.isprintable() or part != part.strip():
        raise InvalidArgument(
            f"{part[:80]!r} is no legal name: printable characters without '/', not '.' or '..'", field
        )


def check_cluster_name(name: str, field: str) -> None:
    """A cluster's identity: `[a-z0-9]` and inner `-`, at most 32, never `local` (it means here)."""
    if not _CLUSTER_NAME.fullmatch(name) or name == "local":
        raise InvalidArgument(
            f"{name[:80]!r} is no cluster name: a-z, 0-9 and inner '-', at most 32 characters, not 'local'", field
        )


def fold_remote_id(job: JobId, requester: str) -> JobId:
    """The id under which a peer runs a job of `requester`, a child below its root.

    Injective: a cluster name holds no dot, so the first dot ends it (design, "remote job id").
    Raises InvalidArgument when the folded name is over the limit.
    """
    folded = f"{requester}.{job.root.name}"
    if len(folded) > MAX_COMPONENT_CHARS:
        longest = MAX_COMPONENT_CHARS - len(requester) - 1
        raise InvalidArgument(f"a job that may be handed to a peer has a name of at most {longest} characters", "name")
    return JobId((job.user, folded, *job.parts[2:]))


def unfold_local_id(remote: JobId, requester: str) -> JobId | None:
    """The parent's own name of a remote job or child, or None when it is not `requester`'s."""
    prefix = requester + "."
    if not remote.parts[1].startswith(prefix) or len(remote.parts[1]) == len(prefix):
        return None
    return JobId((remote.user, remote.parts[1][len(prefix) :], *remote.parts[2:]))
