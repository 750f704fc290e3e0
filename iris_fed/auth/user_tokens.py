"""User tokens: what a person shows to this controller where no proxy speaks for them.

An EdDSA JWT, signed with this cluster's key: `iss` the cluster, `sub` the person, `aud` below, `role`,
`jti`, `iat`, `exp`. It counts while its row in the database stands, so that one can be revoked, and so
that the key alone makes none.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from iris_fed.auth.claims import check_times, claimed, signed_claims
from iris_fed.auth.identity import Identity, Role, Source
from iris_fed.auth.people import People
from iris_fed.auth.verified import VerifiedTokens
from iris_fed.clock import Clock
from iris_fed.errors import FailedPrecondition, Unauthenticated
from iris_fed.model.tokens import UserToken

AUDIENCE = "iris-fed-user"
ROLES = frozenset({Role.ADMIN, Role.USER, Role.DASHBOARD})
MAX_TOKEN_BYTES = 4_096
_WHAT = "user token"

TokenById = Callable[[str], Awaitable[UserToken | None]]


class UserTokenSigner:
    """`key` None = this cluster has none, and makes no tokens."""

    def __init__(self, key: Ed25519PrivateKey | None, cluster: str) -> None:
        self._key = key
        self._cluster = cluster

    def sign(self, token: UserToken) -> str:
        """Raises FailedPrecondition without a key."""
        if self._key is None:
            raise FailedPrecondition("this controller has no auth.signing_key, so it makes no tokens")
        claims = {
            "iss": self._cluster,
            "sub": token.principal,
            "aud": AUDIENCE,
            "role": token.role,
            "jti": token.token_id,
            "iat": token.created_ms // 1000,
            "exp": token.expires_ms // 1000,
        }
        return jwt.encode(claims, self._key, algorithm="EdDSA")


class UserTokenVerifier:
    """`keys` are this cluster's own public key and its previous ones; `by_id` gives the row of a token."""

    def __init__(
        self,
        cluster: str,
        keys: Sequence[Ed25519PublicKey],
        people: People,
        by_id: TokenById,
        clock: Clock,
        max_lifetime_s: float,
    ) -> None:
        self._cluster = cluster
        self._keys = tuple(keys)
        self._people = people
        self._by_id = by_id
        self._clock = clock
        self._max_lifetime_s = max_lifetime_s
        self._verified = VerifiedTokens()

    def is_meant(self, token: str) -> bool:
        """Whether it claims to be a user token; `verify` holds it to that."""
        if len(token) > MAX_TOKEN_BYTES:
            return False
        if self._verified.get(token, self._clock.now_ms() / 1000) is not None:
            return True
        claims = claimed(token)
        return claims is not None and claims.get("aud") == AUDIENCE

    async def verify(self, token: str) -> Identity:
        """Raises Unauthenticated, or PermissionDenied when the person's user name is taken."""
        if len(token) > MAX_TOKEN_BYTES:
            raise Unauthenticated(f"the {_WHAT} is too long")
        now_s = self._clock.now_ms() / 1000
        claims = self._verified.get(token, now_s)
        if claims is None:
            claims = signed_claims(token, self._keys, "EdDSA", AUDIENCE, _WHAT)
            self._check(claims)
            self._verified.put(token, claims, check_times(claims, now_s, self._max_lifetime_s, _WHAT))
        row = await self._by_id(claims["jti"])
        if row is None or (row.principal, row.role) != (claims["sub"], claims["role"]):
            raise Unauthenticated(f"this controller's database does not know this {_WHAT} (any more)")
        if row.revoked_ms is not None:
            raise Unauthenticated(f"this {_WHAT} was revoked")
        return self._identity(claims)

    async def by_id(self, token_id: str) -> Identity:
        """Of a token that was verified when a session was opened with it. Raises as `verify` does."""
        row = await self._by_id(token_id)
        if row is None or row.expires_ms <= self._clock.now_ms():
            raise Unauthenticated(f"this controller's database does not know this {_WHAT} (any more)")
        if row.revoked_ms is not None:
            raise Unauthenticated(f"this {_WHAT} was revoked")
        return self._identity({"sub": row.principal, "role": row.role, "exp": row.expires_ms / 1000})

    def id_of(self, token: str) -> str:
        """Of a verified token."""
        claims = claimed(token)
        return "" if claims is None else str(claims["jti"])

    def _check(self, claims: Mapping[str, Any]) -> None:
        if claims.get("iss") != self._cluster:
            raise Unauthenticated(f"the {_WHAT} was not issued by {self._cluster}")
        if not isinstance(claims.get("jti"), str) or not isinstance(claims.get("sub"), str):
            raise Unauthenticated(f"the {_WHAT} lacks jti or sub")
        if not isinstance(claims.get("role"), str) or claims["role"] not in ROLES:
            raise Unauthenticated(f"the {_WHAT}'s role is not a person's")

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        principal = self._people.canonical(claims["sub"])
        if principal is None:
            raise Unauthenticated(f"the {_WHAT} names no person")
        role = self._people.limited(principal, Role(claims["role"]))
        return self._people.identity(principal, role, Source.USER_TOKEN, int(claims["exp"] * 1000))
