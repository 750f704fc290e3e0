"""Making, listing and revoking user tokens."""

from collections.abc import Callable

from iris_fed.auth.claims import SKEW_S
from iris_fed.auth.identity import Identity, Role, Source
from iris_fed.auth.people import People
from iris_fed.auth.user_tokens import ROLES, UserTokenSigner
from iris_fed.errors import FailedPrecondition, InvalidArgument, NotFound, PermissionDenied, ResourceExhausted
from iris_fed.model.tokens import UserToken
from iris_fed.store.db import Tx
from iris_fed.store.runtime import Runtime
from iris_fed.store.user_tokens import (
    count_tokens,
    insert_token,
    list_tokens,
    prune_tokens,
    remove_revoked,
    revoke_tokens,
    token_by_id,
)
from iris_fed.telemetry import get_logger

MAX_TOKENS = 10_000
MAX_TOKENS_OF_ONE = 100
"""Rows of revoked tokens included, as long as there is room."""
MAX_LISTED = 1_000
_PERSONAL = frozenset({Source.ADMIN_TOKEN, Source.USER_TOKEN, Source.IAP})

log = get_logger(__name__)


class TokenDesk:
    """Administrators act for everybody, others for themselves. `max_lifetime_s` bounds every token.
    `only_one` says why nobody but the administrator's own user may submit jobs; "" = others may."""

    def __init__(
        self, runtime: Runtime, signer: UserTokenSigner, people: People, max_lifetime_s: float, only_one: str = ""
    ) -> None:
        self._runtime = runtime
        self._signer = signer
        self._people = people
        self._max_lifetime_s = int(max_lifetime_s)
        self._only_one = only_one

    async def create(self, caller: Identity, user: str, role: str, lifetime_s: int, note: str) -> tuple[str, UserToken]:
        """A fresh token for `user` ('' = the caller) in `role` ('' = what the caller is, or `user` for another),
        valid for `lifetime_s` (0 = as long as may be), and what is kept of it.

        Raises PermissionDenied, InvalidArgument, FailedPrecondition (no signing key), ResourceExhausted.
        """
        principal = self._person(caller, user)
        wanted = self._role(caller, principal, role)
        # Refuses what could not be used: a user name that is taken.
        identity = self._people.identity(principal, wanted, Source.USER_TOKEN)
        if self._only_one and identity.user not in ("", self._people.admin_user):
            raise FailedPrecondition(f"{principal} could submit jobs, but {self._only_one}")
        now_ms = self._runtime.clock.now_ms() // 1000 * 1000
        expires_ms = self._expiry(caller, principal, wanted, lifetime_s, now_ms)
        token = UserToken(
            token_id=self._runtime.entropy.token(),
            principal=principal,
            role=wanted.value,
            note=note,
            created_by=caller.principal,
            created_ms=now_ms,
            expires_ms=expires_ms,
        )
        signed = self._signer.sign(token)
        await self._runtime.db.write(lambda tx: _keep(tx, token))
        log.info("token.created", token=token.token_id, user=principal, role=token.role, by=caller.principal)
        return signed, token

    async def unexpired(self, caller: Identity, user: str) -> list[UserToken]:
        """Of `user`; '' = everybody for an administrator, the caller for others. Newest first, at most
        MAX_LISTED."""
        anybody = not user and caller.role is Role.ADMIN
        principal = "" if anybody else self._person(caller, user)
        now_ms = self._runtime.clock.now_ms()
        return await self._runtime.db.read(lambda tx: list_tokens(tx, principal, now_ms, MAX_LISTED))

    async def revoke(self, caller: Identity, token_id: str, user: str) -> list[UserToken]:
        """The token of this id, or all of `user`; they count no more when this returns. Revoking twice is no
        error. Raises NotFound when there is no such token, or it is another's and the caller no administrator."""
        if bool(token_id) == bool(user):
            raise InvalidArgument("give either a token's id or a user", "token_id")
        now_ms = self._runtime.clock.now_ms()
        mine = "" if caller.role is Role.ADMIN else self._person(caller, "")
        find = self._finding(token_id, self._person(caller, user) if user else "", mine, now_ms)

        def revoke_found(tx: Tx) -> list[UserToken]:
            found = find(tx)
            revoke_tokens(tx, [token.token_id for token in found], caller.principal, now_ms)
            return [token for one in found if (token := token_by_id(tx, one.token_id)) is not None]

        revoked = await self._runtime.db.write(revoke_found)
        for token in revoked:
            log.info("token.revoked", token=token.token_id, user=token.principal, by=caller.principal)
        return revoked

    def _finding(self, token_id: str, principal: str, mine: str, now_ms: int) -> Callable[[Tx], list[UserToken]]:
        def find(tx: Tx) -> list[UserToken]:
            if principal:
                return list_tokens(tx, principal, now_ms, MAX_TOKENS_OF_ONE)
            token = token_by_id(tx, token_id)
            if token is None or (mine and token.principal != mine):
                raise NotFound(f"there is no token {token_id} (of yours)" if mine else f"there is no token {token_id}")
            return [token]

        return find

    def _person(self, caller: Identity, user: str) -> str:
        """Whose tokens are meant, canonical."""
        if caller.source is Source.SESSION:
            raise PermissionDenied("a browser's session makes, shows and revokes no tokens; use `iris-fed token`")
        if caller.source not in _PERSONAL:
            raise PermissionDenied(f"{caller.principal} is known by its address only, so it has no tokens")
        own = self._people.canonical(caller.principal)
        if not user:
            if own is None:
                raise InvalidArgument("say for whom", "user")
            return own
        principal = self._people.canonical(user)
        if principal is None:
            raise InvalidArgument(f"{user[:80]!r} is no e-mail address or user name", "user")
        if caller.role is not Role.ADMIN and principal != own:
            raise PermissionDenied(f"user: {caller.principal} may have tokens of its own only, not of {principal}")
        return principal

    def _role(self, caller: Identity, principal: str, role: str) -> Role:
        """Raises PermissionDenied for more than the caller is, or than the lists make of the person."""
        own = principal == self._people.canonical(caller.principal)
        wanted = caller.role if not role and own else Role.USER
        if role:
            if role not in ROLES:
                raise InvalidArgument(f"{role[:40]!r} is none of admin, user, dashboard", "role")
            wanted = Role(role)
        if wanted is Role.ADMIN and caller.role is not Role.ADMIN:
            raise PermissionDenied(f"role: {caller.principal} is no admin, so it makes no admin's token")
        if self._people.limited(principal, wanted) is not wanted:
            raise PermissionDenied(f"role: {principal} is not listed as {wanted.value} (auth.admin_users, auth.users)")
        return wanted

    def _expiry(self, caller: Identity, principal: str, role: Role, lifetime_s: int, now_ms: int) -> int:
        """Nobody prolongs its own token by another, nor an admin's token by that of another admin."""
        if not 0 <= lifetime_s <= self._max_lifetime_s:
            raise InvalidArgument(
                f"must be between 1 and {self._max_lifetime_s} (auth.user_token_days), not {lifetime_s}", "lifetime_s"
            )
        expires_ms = now_ms + (lifetime_s or self._max_lifetime_s) * 1000
        prolongs = role is Role.ADMIN or principal == self._people.canonical(caller.principal)
        if caller.expires_ms is None or not prolongs or expires_ms <= caller.expires_ms:
            return expires_ms
        if lifetime_s:
            raise PermissionDenied("lifetime_s: the new token would outlive the one that asks for it")
        if caller.expires_ms <= now_ms:
            raise PermissionDenied("the token that asks is about to expire")
        return caller.expires_ms


def _keep(tx: Tx, token: UserToken) -> None:
    prune_tokens(tx, token.created_ms - SKEW_S * 1000)
    if count_tokens(tx, token.principal) >= MAX_TOKENS_OF_ONE:
        # What has no row does not count either.
        remove_revoked(tx, token.principal)
    if count_tokens(tx, token.principal) >= MAX_TOKENS_OF_ONE:
        raise ResourceExhausted(f"{token.principal} has {MAX_TOKENS_OF_ONE} tokens that have not expired")
    if count_tokens(tx) >= MAX_TOKENS:
        raise ResourceExhausted(f"there are {MAX_TOKENS} tokens that have not expired")
    insert_token(tx, token)
