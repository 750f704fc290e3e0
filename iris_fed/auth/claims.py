"""What the claims of any signed token are checked for: their form, and their times by our own clock."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from iris_fed.errors import Unauthenticated

SKEW_S = 30
"""How far the clocks of issuer and reader may be apart."""

# Older releases of PyJWT let JSON that is nested as deep as a token is long exhaust the stack.
_UNREADABLE = (jwt.InvalidTokenError, RecursionError, ValueError)


def claimed(token: str) -> dict[str, Any] | None:
    """What a token says, signed or not; None = it is no JWT."""
    try:
        claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except _UNREADABLE:
        return None
    return claims


def claimed_key_id(token: str) -> str | None:
    """The `kid` of a token's header; None = it is no JWT, or names no key."""
    try:
        kid = jwt.get_unverified_header(token).get("kid")
    except _UNREADABLE:
        return None
    return kid if isinstance(kid, str) else None


def signed_claims(
    token: str,
    keys: Iterable[Ed25519PublicKey | EllipticCurvePublicKey],
    algorithm: str,
    audience: str,
    what: str,
) -> dict[str, Any]:
    """The claims, when one of the keys signed them for `audience`. Their times are not checked here.

    `what` names the token in messages. Raises Unauthenticated.
    """
    options: Any = {"verify_exp": False, "verify_iat": False, "verify_nbf": False, "strict_aud": True}
    for key in keys:
        try:
            claims: dict[str, Any] = jwt.decode(token, key, algorithms=[algorithm], audience=audience, options=options)
            return claims
        except jwt.InvalidAudienceError:
            raise Unauthenticated(f"the {what}'s audience is not {audience!r}") from None
        except _UNREADABLE:
            continue
    raise Unauthenticated(f"the {what}'s signature fits no configured key of its issuer")


def check_times(claims: Mapping[str, Any], now_s: float, lifetime_s: float, what: str) -> float:
    """The second of the token's end. Raises Unauthenticated unless it counts now and lives no longer than
    `lifetime_s`."""
    issued, expires = claims.get("iat"), claims.get("exp")
    if not _is_time(issued) or not _is_time(expires):
        raise Unauthenticated(f"the {what} lacks iat or exp")
    if expires + SKEW_S <= now_s:
        raise Unauthenticated(f"the {what} has expired; is the clock right?")
    not_before = claims.get("nbf", issued)
    if not _is_time(not_before) or max(issued, not_before) - SKEW_S > now_s:
        raise Unauthenticated(f"the {what} is from the future; is the clock right?")
    if expires - issued > lifetime_s:
        raise Unauthenticated(f"the {what} lives longer than {lifetime_s:.0f} s")
    return expires


def _is_time(value: object) -> TypeGuard[int | float]:
    """A finite time: NaN, which JSON's reader admits, would pass every comparison."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53
