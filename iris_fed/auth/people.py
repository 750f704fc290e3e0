"""Persons: how their names are written, what they may be here, and what their jobs are called.

A person is an e-mail address, or a bare name where no domain is configured. Case never matters:
everything is lower case, as the providers of e-mail addresses treat them.

The user segment of a person's jobs is the local part of an address in `user_domain`, and the whole
address (or bare name) of everybody else. That is injective: a local part holds no `@`, a whole
address does, and with a `user_domain` a bare name means the address in it.
"""

from collections.abc import Collection
from dataclasses import dataclass

from iris_fed.auth.identity import Identity, Role, Source
from iris_fed.config.persons import MAX_PERSON_CHARS, lower_person
from iris_fed.errors import PermissionDenied

NETWORK_USER = "network"
"""Whom the jobs of callers belong to that are known by their address only."""
_RANK = {Role.DASHBOARD: 0, Role.USER: 1, Role.ADMIN: 2}


@dataclass(frozen=True, slots=True)
class Listed:
    """Who is what, by exact name or `*@domain`. `binding`: nobody is more than this says, whatever the
    credential; else it says nothing."""

    admins: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    binding: bool = False


class People:
    """`admin_user` owns the jobs of whoever has the admin token; `reserved` are further user names that no
    person may have."""

    def __init__(
        self, admin_user: str, user_domain: str = "", listed: Listed | None = None, reserved: Collection[str] = ()
    ) -> None:
        self.admin_user = admin_user
        self._domain = user_domain
        listed = listed or Listed()
        self._binding = listed.binding
        self._admins = tuple(self._whole_pattern(pattern) for pattern in listed.admins)
        self._users = tuple(self._whole_pattern(pattern) for pattern in listed.users)
        self._reserved = frozenset(reserved)

    def canonical(self, name: str) -> str | None:
        """The one way of writing a person's name; None = it cannot be one."""
        lower = lower_person(name)
        if lower is None or not self._domain or "@" in lower:
            return lower
        whole = f"{lower}@{self._domain}"
        return whole if len(whole) <= MAX_PERSON_CHARS else None

    def user_of(self, principal: str) -> str:
        """The user segment; `principal` is canonical."""
        local, _, domain = principal.partition("@")
        return local if self._domain and domain == self._domain else principal

    def role_of(self, principal: str) -> Role:
        """What the lists make of a canonical principal; nobody provisioned it = DASHBOARD."""
        if _matches(principal, self._admins):
            return Role.ADMIN
        return Role.USER if _matches(principal, self._users) else Role.DASHBOARD

    def limited(self, principal: str, role: Role) -> Role:
        """`role`, but no more than the lists say where they bind."""
        return min(role, self.role_of(principal), key=_RANK.__getitem__) if self._binding else role

    def role_of_user(self, user: str) -> Role:
        """Of a user segment, for people to see."""
        principal = self.canonical(user)
        if user == self.admin_user or principal is None:
            return Role.ADMIN if user == self.admin_user else Role.USER
        return self.limited(principal, Role.ADMIN) if self._binding else Role.USER

    def identity(self, principal: str, role: Role, source: Source, expires_ms: int | None = None) -> Identity:
        """A person's, `principal` being canonical.

        Raises PermissionDenied when its user name is somebody else's: the administrator's own, for whoever
        is none, or a reserved one.
        """
        if role is Role.DASHBOARD:
            return Identity(principal, "", role, source=source, expires_ms=expires_ms)
        user = self.user_of(principal)
        if user in self._reserved or (user == self.admin_user and role is not Role.ADMIN):
            raise PermissionDenied(f"{principal} would have the user name {user!r}, which is kept for another here")
        return Identity(principal, user, role, source=source, expires_ms=expires_ms)

    def _whole_pattern(self, pattern: str) -> str:
        return pattern.lower() if pattern.startswith("*@") else self.canonical(pattern) or pattern


def _matches(principal: str, patterns: tuple[str, ...]) -> bool:
    domain = principal.partition("@")[2]
    return any(pattern == principal or (bool(domain) and pattern == f"*@{domain}") for pattern in patterns)
