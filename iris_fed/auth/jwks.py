"""Public keys that somebody publishes and changes, as a JWK set (RFC 7517): fetched, kept, fetched again.

A token that names an unknown key causes a fetch, at a bounded rate; while the endpoint is away the
keys that are known go on counting for a day.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey

from iris_fed.errors import Unauthenticated, Unavailable
from iris_fed.supervise import Pulse
from iris_fed.telemetry import get_logger

MAX_KEYS = 64
MAX_KEY_ID_CHARS = 256
FETCH_S = 5.0

Fetch = Callable[[], Awaitable[bytes]]
log = get_logger(__name__)


class KeysUnavailable(Exception):
    """The keys could not be fetched, or make no sense. Its text says why."""


@dataclass(frozen=True, slots=True)
class KeyTimes:
    """Seconds. Keys are fetched anew every `refresh_s`, after a failure or for an unknown key at most every
    `cooldown_s`, and count until `stale_s` after the last success. A caller waits `wait_s` for a fetch."""

    refresh_s: float = 300.0
    cooldown_s: float = 10.0
    stale_s: float = 86_400.0
    wait_s: float = FETCH_S + 1.0


class PublishedKeys:
    """ES256 keys by their id. `run` is the only one that fetches, so there is one fetch at a time."""

    def __init__(self, fetch: Fetch, times: KeyTimes | None = None) -> None:
        self._fetch = fetch
        self._times = times or KeyTimes()
        self._keys: dict[str, EllipticCurvePublicKey] = {}
        self._asked = asyncio.Event()
        self._fetching = False
        self._trouble = ""
        self._started_s = float("-inf")
        self._fetched_s = float("-inf")
        self._fetch_ended = asyncio.Event()

    async def run(self, pulse: Pulse) -> None:
        """Keeps the keys fresh, for ever."""
        while True:
            pulse.beat(FETCH_S)
            fetched = await self._refresh()
            pause_s = self._times.refresh_s if fetched else self._times.cooldown_s
            pulse.beat(pause_s)
            with anyio.move_on_after(pause_s):
                await self._asked.wait()

    async def key(self, key_id: str) -> EllipticCurvePublicKey:
        """Raises Unauthenticated when nobody publishes it, Unavailable when no keys are known."""
        if not self.knows(key_id):
            await self._ask_once()
        if self._is_stale():
            raise Unavailable("the keys that sign identities cannot be fetched at the moment")
        key = self._keys.get(key_id)
        if key is None:
            raise Unauthenticated("the identity is signed with a key that its issuer does not publish")
        return key

    def knows(self, key_id: str) -> bool:
        return key_id in self._keys and not self._is_stale()

    async def _ask_once(self) -> None:
        """Wait for a fetch, if one is under way or may begin."""
        if not self._fetching:
            if anyio.current_time() - self._started_s < self._times.cooldown_s:
                return
            self._asked.set()
        with anyio.move_on_after(self._times.wait_s):
            await self._fetch_ended.wait()

    async def _refresh(self) -> bool:
        self._started_s, self._fetching = anyio.current_time(), True
        self._asked.clear()
        try:
            with anyio.fail_after(FETCH_S):
                keys = read_jwks(await self._fetch())
            if keys.keys() != self._keys.keys() or self._trouble:
                log.info("iap.keys_fetched", count=len(keys))
            self._keys, self._fetched_s, self._trouble = keys, anyio.current_time(), ""
            return True
        except (KeysUnavailable, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            if reason != self._trouble:
                log.warning("iap.keys_unavailable", reason=reason, known=len(self._keys))
            self._trouble = reason
            return False
        finally:
            self._fetching = False
            self._fetch_ended.set()
            self._fetch_ended = asyncio.Event()

    def _is_stale(self) -> bool:
        return anyio.current_time() - self._fetched_s >= self._times.stale_s


def read_jwks(body: bytes) -> dict[str, EllipticCurvePublicKey]:
    """The P-256 keys of a JWK set by `kid`; others are passed over. Raises KeysUnavailable when there is none."""
    try:
        entries = json.loads(body)["keys"]
        found = [_p256(entry) for entry in entries[:MAX_KEYS]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise KeysUnavailable("the answer is no JWK set") from None
    keys = dict(one for one in found if one is not None)
    if not keys:
        raise KeysUnavailable("the JWK set holds no P-256 key")
    return keys


def _p256(entry: object) -> tuple[str, EllipticCurvePublicKey] | None:
    if not isinstance(entry, dict) or entry.get("kty") != "EC" or entry.get("crv") != "P-256":
        return None
    key_id = entry.get("kid")
    if not isinstance(key_id, str) or not 0 < len(key_id) <= MAX_KEY_ID_CHARS:
        return None
    try:
        key = jwt.PyJWK(entry, algorithm="ES256").key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    fits = isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1)
    return (key_id, key) if fits else None
