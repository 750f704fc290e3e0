"""Federation tokens: minted fresh for each call, verified against the keys of trusted requesters.

Wire contract, "Federation token": EdDSA, `iss` = `sub` = the parent, `aud` "federation", `role`
"federation-peer", at most 300 s; `dst` (ours) names the cluster it is meant for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from iris_fed.auth.claims import check_times, claimed, signed_claims
from iris_fed.auth.identity import Identity, Role, Source
from iris_fed.clock import Clock, Entropy
from iris_fed.errors import Unauthenticated

LIFETIME_S = 300
AUDIENCE = "federation"
MAX_TOKEN_BYTES = 4_096
_WHAT = "federation token"


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
            raise Unauthenticated(f"the {_WHAT} is too long")
        requester = _claimed_issuer(token)
        trust = self._trusted.get(requester)
        if trust is None:
            raise Unauthenticated(f"no key of the cluster that issued this {_WHAT} is configured here")
        claims = signed_claims(token, trust.keys, "EdDSA", AUDIENCE, _WHAT)
        self._check_claims(claims, requester, trust)
        return Identity(requester, "", Role.FEDERATION_PEER, requester, source=Source.FEDERATION_TOKEN)

    def _check_claims(self, claims: Mapping[str, Any], requester: str, trust: TrustedRequester) -> None:
        if not isinstance(claims.get("jti"), str):
            raise Unauthenticated(f"the {_WHAT} lacks jti")
        if claims.get("sub") != requester or claims.get("role") != Role.FEDERATION_PEER.value:
            raise Unauthenticated(f"the {_WHAT}'s sub or role is not a federation peer's")
        check_times(claims, self._clock.now_ms() / 1000, LIFETIME_S, _WHAT)
        destination = claims.get("dst")
        if destination is None and not trust.allow_missing_dst:
            raise Unauthenticated(
                f"the {_WHAT} does not say that it is meant for {self._cluster}; "
                "for an Iris parent, set allow_missing_dst"
            )
        if destination is not None and destination != self._cluster:
            raise Unauthenticated(f"the {_WHAT} is meant for another cluster than {self._cluster}")


def _claimed_issuer(token: str) -> str:
    claims = claimed(token)
    if claims is None:
        raise Unauthenticated("this token is not valid here: mistyped, expired, revoked, or of another controller")
    issuer = claims.get("iss")
    return issuer if isinstance(issuer, str) else ""
