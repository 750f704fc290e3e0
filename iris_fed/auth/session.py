"""A browser's session: what stands in its cookie instead of the token with which it was opened.

`<expires_s>.<token id>.<MAC>`; the token id is empty for the administrator. Nothing of it is kept: it counts
until it expires, while the token behind it does, and while the admin token is the same, which keys the MAC.
"""

import hashlib
import hmac
from dataclasses import dataclass, replace

from iris_fed.auth.identity import Identity, Source
from iris_fed.auth.user_tokens import UserTokenVerifier
from iris_fed.clock import Clock
from iris_fed.errors import Unauthenticated

COOKIE = "iris_fed_session"
MAX_SESSION_S = 12 * 3600
MAX_VALUE_CHARS = 256


@dataclass(frozen=True, slots=True)
class Session:
    """`value` goes into the cookie, for `lifetime_s` seconds."""

    value: str
    lifetime_s: int
    identity: Identity


class Sessions:
    """`admin` is who the admin token makes."""

    def __init__(self, admin_token: str, admin: Identity, user_tokens: UserTokenVerifier, clock: Clock) -> None:
        self._key = hmac.digest(admin_token.encode(), b"iris-fed browser sessions", "sha256")
        self._admin = admin
        self._user_tokens = user_tokens
        self._clock = clock

    def open(self, identity: Identity, token_id: str) -> Session:
        """For whoever has shown the admin token (`token_id` '') or a user token."""
        now_s = self._clock.now_ms() // 1000
        expires_s = now_s + MAX_SESSION_S
        if identity.expires_ms is not None:
            expires_s = min(expires_s, identity.expires_ms // 1000)
        told = f"{expires_s}.{token_id}"
        return Session(f"{told}.{self._mac(told)}", expires_s - now_s, _in_session(identity, expires_s))

    async def identify(self, value: str) -> Identity:
        """Raises Unauthenticated; PermissionDenied when the person's user name is taken."""
        told, _, mac = value.rpartition(".")
        if len(value) > MAX_VALUE_CHARS or not hmac.compare_digest(mac.encode(), self._mac(told).encode()):
            raise Unauthenticated("this session was not opened here; sign in again")
        expires, _, token_id = told.partition(".")
        if int(expires) <= self._clock.now_ms() // 1000:
            raise Unauthenticated("this session is over; sign in again")
        identity = await self._user_tokens.by_id(token_id) if token_id else self._admin
        return _in_session(identity, int(expires))

    def _mac(self, told: str) -> str:
        return hmac.new(self._key, told.encode(), hashlib.sha256).hexdigest()


def session_cookie(header: str) -> str | None:
    """The value in a `Cookie` header; None = there is none. Raises Unauthenticated for more than one."""
    pairs = [pair.strip().partition("=") for pair in header.split(";")]
    values = [value for name, _, value in pairs if name == COOKIE]
    if len(values) > 1:
        raise Unauthenticated("a request carries one session")
    return values[0] if values else None


def _in_session(identity: Identity, expires_s: int) -> Identity:
    return replace(identity, source=Source.SESSION, expires_ms=expires_s * 1000)
