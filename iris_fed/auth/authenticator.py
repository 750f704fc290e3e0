"""From the headers of a request to who asks. The first credential present decides; there is no other way in."""

import hashlib
import hmac
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from iris_fed.auth import task_tokens
from iris_fed.auth.federation_tokens import FederationVerifier
from iris_fed.auth.identity import Identity, Role
from iris_fed.auth.task_tokens import TaskTokens
from iris_fed.errors import Unauthenticated

ADMIN_TOKEN_FILE = "admin.token"
_PREFIX = "irisfed_admin_"


@dataclass(frozen=True, slots=True)
class TaskOwner:
    """The job that a task belongs to, and the person behind it."""

    job_id: str
    user: str
    submitting_user: str


class Authenticator:
    """Knows this controller's admin token (by its hash), the federation's keys, and its tasks.

    `job_of_task` gives the job of an attempt that lives, by its uid.
    """

    def __init__(
        self,
        admin_token: str,
        admin_user: str,
        verifier: FederationVerifier,
        tasks: TaskTokens,
        job_of_task: Callable[[str], Awaitable[TaskOwner | None]],
    ) -> None:
        self._admin_hash = _digest(admin_token)
        self._admin = Identity(principal=admin_user, user=admin_user, role=Role.ADMIN)
        self._verifier = verifier
        self._tasks = tasks
        self._job_of_task = job_of_task

    async def authenticate(self, headers: Mapping[str, str]) -> Identity:
        """`headers` by lower-case name. Raises Unauthenticated."""
        header = headers.get("authorization")
        if header is None:
            raise Unauthenticated("this request carries no credential: send `Authorization: Bearer <token>`")
        scheme, _, token = header.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated("the Authorization header is not of the form `Bearer <token>`")
        if token.startswith(_PREFIX):
            if hmac.compare_digest(_digest(token), self._admin_hash):
                return self._admin
            raise Unauthenticated("this admin token is not this controller's (was it restarted on another state_dir?)")
        if token.startswith(task_tokens.PREFIX):
            return await self._task(token)
        return self._verifier.verify(token)

    async def _task(self, token: str) -> Identity:
        uid = self._tasks.attempt_of(token)
        owner = await self._job_of_task(uid) if uid is not None else None
        if owner is None:
            raise Unauthenticated("this task token is not valid (any more): it counts while its task runs")
        return Identity(principal=owner.submitting_user, user=owner.user, role=Role.JOB, subtree=owner.job_id)


def ensure_admin_token(state_dir: Path) -> str:
    """The controller's admin token, made at the first start, readable by its owner only (0600)."""
    path = state_dir / ADMIN_TOKEN_FILE
    try:
        token = path.read_text().strip()
        if token.startswith(_PREFIX):
            os.chmod(path, 0o600)
            return token
    except FileNotFoundError:
        pass
    token = _PREFIX + secrets.token_urlsafe(32)
    draft = path.with_suffix(".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(token + "\n")
    os.replace(draft, path)
    return token


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
