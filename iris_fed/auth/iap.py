"""Google's Identity-Aware Proxy: the identity that it signs into every request that it lets through.

https://cloud.google.com/iap/docs/signed-headers-howto: ES256, the issuer below, the audience of the
backend service, at most ten minutes. Only this header counts; those in plain text can be forged by
whoever gets past the proxy.
"""

from collections.abc import Mapping
from typing import Any

from iris_fed.auth.claims import SKEW_S, check_times, claimed_key_id, signed_claims
from iris_fed.auth.jwks import PublishedKeys
from iris_fed.auth.verified import VerifiedTokens
from iris_fed.clock import Clock
from iris_fed.errors import Unauthenticated

HEADER = "x-goog-iap-jwt-assertion"
ISSUER = "https://cloud.google.com/iap"
LIFETIME_S = 600 + 2 * SKEW_S
MAX_TOKEN_BYTES = 8_192
_WHAT = "IAP assertion"
_KEY_ID = "kid"
"""Kept with the claims of an assertion, which counts while its key is published."""


class IapVerifier:
    """`audience` is the proxy's name of this service, `/projects/.../backendServices/...`."""

    def __init__(self, keys: PublishedKeys, audience: str, clock: Clock) -> None:
        self._keys = keys
        self._audience = audience
        self._clock = clock
        self._verified = VerifiedTokens()

    async def verify(self, assertion: str) -> str:
        """The e-mail address that Google vouches for, as it was written. Raises Unauthenticated, and
        Unavailable while no key is known."""
        if len(assertion) > MAX_TOKEN_BYTES:
            raise Unauthenticated(f"the {_WHAT} is too long")
        now_s = self._clock.now_ms() / 1000
        seen = self._verified.get(assertion, now_s)
        if seen is not None and self._keys.knows(seen[_KEY_ID]):
            return str(seen["email"])
        key_id = claimed_key_id(assertion)
        if key_id is None:
            raise Unauthenticated(f"the {_WHAT} is no signed token that names its key")
        key = await self._keys.key(key_id)
        claims = signed_claims(assertion, [key], "ES256", self._audience, _WHAT)
        self._verified.put(assertion, {**claims, _KEY_ID: key_id}, self._check(claims, now_s))
        return str(claims["email"])

    def _check(self, claims: Mapping[str, Any], now_s: float) -> float:
        if claims.get("iss") != ISSUER:
            raise Unauthenticated(f"the {_WHAT} was not issued by Google's IAP")
        if not isinstance(claims.get("sub"), str) or not claims["sub"] or not isinstance(claims.get("email"), str):
            raise Unauthenticated(f"the {_WHAT} lacks sub or email")
        return check_times(claims, now_s, LIFETIME_S, _WHAT)
