"""Federation tokens: minted fresh for each call, verified against the keys of trusted requesters.

Wire contract, "Federation token": EdDSA, `iss` = `sub` = the parent, `aud` "federation", `role`
"federation-peer", at most 300 s; `dst` (ours) names the cluster it is meant for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from iris_fed.auth.identity import Identity, Role
from iris_fed.clock import Clock, Entropy
from iris_fed.errors import Unauthenticated

LIFETIME_S = 300
SKEW_S = 30
"""How far two clusters' clocks may be apart."""
AUDIENCE = "federation"
MAX_TOKEN_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class TrustedRequester:
    """A cluster whose tokens count. `allow_missing_dst`: also those that do not name us."""

    keys: tuple[Ed25519PublicKey, ...]
    allow_missing_dst: bool = False


class FederationSigner:
    """Speaks for this cluster to its peers."""

    def __init__(self, key: Ed25519PrivateKey, cluster: str, clock: Clock, entropy: Entropy) -> None:
        self._key = key
        self._cluster = cluster
        self._clock = clock
        self._entropy = entropy

    def mint(self, peer: str) -> str:
        """A token for one call to `peer`."""
        now_s = self._clock.now_ms() // 1000
        claims = {
            "iss": self._cluster,
            "sub": self._cluster,
            "aud": AUDIENCE,
            "role": Role.FEDERATION_PEER.value,
            "dst": peer,
            "jti": self._entropy.token(),
            "iat": now_s,
            "exp": now_s + LIFETIME_S,
        }
        return jwt.encode(claims, self._key, algorithm="EdDSA")


class FederationVerifier:
    """Tells which trusted cluster speaks."""

    def __init__(self, trusted: Mapping[str, TrustedRequester], cluster: str, clock: Clock) -> None:
        self._trusted = trusted
        self._cluster = cluster
        self._clock = clock

    def verify(self, token: str) -> Identity:
        """Raises Unauthenticated, saying which rule the token breaks."""
        if len(token) > MAX_TOKEN_BYTES:
            raise Unauthenticated("the federation token is too long")
        requester = self._claimed_issuer(token)
        trust = self._trusted.get(requester)
        if trust is None:
            raise Unauthenticated("no key of the cluster that issued this federation token is configured here")
        claims = _verified_claims(token, trust.keys)
        self._check_claims(claims, requester, trust)
        return Identity(principal=requester, user="", role=Role.FEDERATION_PEER, requester=requester)

    def _claimed_issuer(self, token: str) -> str:
        try:
            claims = jwt.decode(token, options={"verify_signature": False})
        except (jwt.InvalidTokenError, RecursionError):
            # Older releases of PyJWT let JSON that is nested as deep as a token is long exhaust the stack.
            raise Unauthenticated("the bearer token is neither this controller's nor a federation token") from None
        issuer = claims.get("iss")
        return issuer if isinstance(issuer, str) else ""

    def _check_claims(self, claims: dict[str, Any], requester: str, trust: TrustedRequester) -> None:
        now_s = self._clock.now_ms() / 1000
        issued, expires = claims.get("iat"), claims.get("exp")
        if not _is_number(issued) or not _is_number(expires) or not isinstance(claims.get("jti"), str):
            raise Unauthenticated("the federation token lacks iat, exp or jti")
        if claims.get("sub") != requester or claims.get("role") != Role.FEDERATION_PEER.value:
            raise Unauthenticated("the federation token's sub or role is not a federation peer's")
        if expires + SKEW_S <= now_s:
            raise Unauthenticated("the federation token has expired; are both clusters' clocks right?")
        not_before = claims.get("nbf", issued)
        if not _is_number(not_before) or max(issued, not_before) - SKEW_S > now_s:
            raise Unauthenticated("the federation token is from the future; are both clusters' clocks right?")
        if expires - issued > LIFETIME_S:
            raise Unauthenticated(f"the federation token lives longer than {LIFETIME_S} s")
        destination = claims.get("dst")
        if destination is None and not trust.allow_missing_dst:
            raise Unauthenticated(
                f"the federation token does not say that it is meant for {self._cluster}; "
                "for an Iris parent, set allow_missing_dst"
            )
        if destination is not None and destination != self._cluster:
            raise Unauthenticated(f"the federation token is meant for another cluster than {self._cluster}")


def _verified_claims(token: str, keys: tuple[Ed25519PublicKey, ...]) -> dict[str, Any]:
    """The claims, when one of the keys signed them. Times are checked by our own clock, not here."""
    options: Any = {"verify_exp": False, "verify_iat": False, "verify_nbf": False}
    for key in keys:
        try:
            claims: dict[str, Any] = jwt.decode(token, key, algorithms=["EdDSA"], audience=AUDIENCE, options=options)
            return claims
        except jwt.InvalidAudienceError:
            raise Unauthenticated(f"the token's audience is not {AUDIENCE!r}") from None
        except jwt.InvalidTokenError:
            continue
    raise Unauthenticated("the federation token's signature fits no configured key of its issuer")


def _is_number(value: object) -> TypeGuard[int | float]:
    """A finite time: NaN, which JSON's reader admits, would pass every comparison."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53
