"""From the headers of a request to who asks. The first credential present decides; there is no other way in."""

import hashlib
import hmac
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from iris_fed.auth import iap, task_tokens
from iris_fed.auth.federation_tokens import FederationVerifier
from iris_fed.auth.iap import IapVerifier
from iris_fed.auth.identity import Identity, Role, Source
from iris_fed.auth.network import NetworkTrust
from iris_fed.auth.people import People
from iris_fed.auth.session import Session, Sessions, session_cookie
from iris_fed.auth.task_tokens import TaskTokens
from iris_fed.auth.user_tokens import UserTokenVerifier
from iris_fed.clock import Clock
from iris_fed.errors import Unauthenticated

ADMIN_TOKEN_FILE = "admin.token"
_PREFIX = "irisfed_admin_"


@dataclass(frozen=True, slots=True)
class TaskOwner:
    """The job that a task belongs to, and the person behind it."""

    job_id: str
    user: str
    submitting_user: str


@dataclass(frozen=True, slots=True)
class Sources:
    """Where identities come from besides this controller's own state. `iap` None = no proxy vouches for anybody."""

    people: People
    federation: FederationVerifier
    user_tokens: UserTokenVerifier
    iap: IapVerifier | None
    network: NetworkTrust
    clock: Clock


class Authenticator:
    """Knows this controller's admin token (by its hash), its tasks, and where else identities come from.

    `job_of_task` gives the job of an attempt that lives, by its uid.
    """

    def __init__(
        self,
        admin_token: str,
        tasks: TaskTokens,
        job_of_task: Callable[[str], Awaitable[TaskOwner | None]],
        by: Sources,
    ) -> None:
        self._admin_hash = _digest(admin_token)
        self._admin = Identity(principal=by.people.admin_user, user=by.people.admin_user, role=Role.ADMIN)
        self._tasks = tasks
        self._job_of_task = job_of_task
        self._by = by
        self._sessions = Sessions(admin_token, self._admin, by.user_tokens, by.clock)

    async def open_session(self, token: str) -> Session:
        """For a browser, with an admin or a user token. Raises Unauthenticated for anything else."""
        identity = await self._bearer(f"Bearer {token}")
        if identity.source is Source.ADMIN_TOKEN:
            return self._sessions.open(identity, "")
        if identity.source is not Source.USER_TOKEN:
            raise Unauthenticated("a session is opened with a user token, or the admin token")
        return self._sessions.open(identity, self._by.user_tokens.id_of(token))

    async def authenticate(self, headers: Mapping[str, str], peer: str = "") -> Identity:
        """`headers` by lower-case name; `peer` is the other end of the connection, `host:port`.

        Raises Unauthenticated; PermissionDenied for a person whose user name is taken; Unavailable while
        IAP's keys are not known.
        """
        bearer = headers.get("authorization")
        if bearer is not None:
            return await self._bearer(bearer)
        assertion = headers.get(iap.HEADER)
        if assertion is not None:
            return await self._asserted(assertion)
        session = session_cookie(headers.get("cookie", ""))
        if session is not None:
            return await self._sessions.identify(session)
        return self._by.network.identify(peer, headers)

    async def _bearer(self, header: str) -> Identity:
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
        if self._by.user_tokens.is_meant(token):
            return await self._by.user_tokens.verify(token)
        return self._by.federation.verify(token)

    async def _task(self, token: str) -> Identity:
        uid = self._tasks.attempt_of(token)
        owner = await self._job_of_task(uid) if uid is not None else None
        if owner is None:
            raise Unauthenticated("this task token is not valid (any more): it counts while its task runs")
        return Identity(owner.submitting_user, owner.user, Role.JOB, subtree=owner.job_id, source=Source.TASK_TOKEN)

    async def _asserted(self, assertion: str) -> Identity:
        if self._by.iap is None:
            raise Unauthenticated("this request carries an IAP assertion, but auth.iap is not configured here")
        principal = self._by.people.canonical(await self._by.iap.verify(assertion))
        if principal is None:
            raise Unauthenticated("the e-mail address in the IAP assertion cannot name a user here")
        return self._by.people.identity(principal, self._by.people.role_of(principal), Source.IAP)


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
