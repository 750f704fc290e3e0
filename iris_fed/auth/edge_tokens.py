"""The token for a proxy in front of a controller, as its clients hold it: the command line, the SDK and the way
to a peer alike. It travels in `Proxy-Authorization`, beside what the controller itself is shown.

https://cloud.google.com/iap/docs/authentication-howto#authenticating_from_proxy-authorization_header
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from iris_fed.auth.claims import claimed
from iris_fed.auth.edge_sources import EdgeTokenUnavailable, source_of
from iris_fed.clock import Clock

MAX_TOKEN_BYTES = 16_384
"""Of a request's whole head more is seldom admitted."""
MARGIN_MS = 60_000
OPAQUE_MS = 300_000
"""A token that does not tell its end is asked for anew after this."""
MIN_AGE_MS = 5_000
"""A refused token that is younger is not asked for anew: the source would be run for every call."""
RETRY_AFTER_MS = 5_000
PATIENCE_S = 0.25
"""How long a caller waits for a source that has failed before."""


@dataclass(frozen=True, slots=True)
class _Held:
    token: str
    got_ms: int
    due_ms: int
    end_ms: int


class EdgeToken:
    """One source's token, kept until a minute before its end (JWT) or for five minutes.

    The source is asked once at a time, however many wait, and goes on when a waiter gives up. While it
    fails, an older token serves to its end; then every caller hears the reason, and it is asked again
    every five seconds.
    """

    def __init__(self, source: Callable[[], Awaitable[str]], clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._held: _Held | None = None
        self._flight: asyncio.Task[None] | None = None
        self._failure = ""
        self._failed_ms = 0

    async def get(self, refused: str = "") -> str:
        """`refused` is a token that the proxy has just refused: if it is the one held, another is asked for.

        Raises EdgeTokenUnavailable.
        """
        held, now_ms = self._held, self._clock.now_ms()
        if held is not None and now_ms < held.due_ms and not _is_refused(held, refused, now_ms):
            return held.token
        if self._flight is None and (not self._failure or now_ms >= self._failed_ms + RETRY_AFTER_MS):
            self._flight = asyncio.create_task(self._fetch())
        if (flight := self._flight) is not None:
            await asyncio.wait({flight}, timeout=PATIENCE_S if self._failure else None)
            if flight.done() and not flight.cancelled():
                flight.result()
        return self._outcome()

    async def close(self) -> None:
        """End what is under way."""
        if (flight := self._flight) is not None:
            flight.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait({flight})

    def _outcome(self) -> str:
        held = self._held
        if held is not None and self._clock.now_ms() < held.end_ms:
            return held.token
        raise EdgeTokenUnavailable(self._failure or "it was not got in time")

    async def _fetch(self) -> None:
        try:
            self._held = _judged(await self._source(), self._clock.now_ms())
            self._failure = ""
        except EdgeTokenUnavailable as error:
            self._failure, self._failed_ms = str(error), self._clock.now_ms()
        finally:
            self._flight = None


def open_edge_token(reference: str, clock: Clock, *, quiet: bool = True) -> EdgeToken:
    """`reference` as `config.edge_tokens` describes it. What a command says on its standard error is dropped
    when `quiet`, else it goes to ours. Raises ValueError for no such reference."""
    return EdgeToken(source_of(reference, quiet), clock)


def _is_refused(held: _Held, refused: str, now_ms: int) -> bool:
    return held.token == refused and now_ms - held.got_ms >= MIN_AGE_MS


def _judged(text: str, now_ms: int) -> _Held:
    token = text.strip()
    if not token:
        raise EdgeTokenUnavailable("its source gave nothing")
    if len(token) > MAX_TOKEN_BYTES or not token.isascii() or not token.isprintable() or " " in token:
        raise EdgeTokenUnavailable("what its source gave is no token")
    claims = claimed(token)
    end = None if claims is None else claims.get("exp")
    if isinstance(end, bool) or not isinstance(end, int | float) or not 0 <= end < 2**40:
        return _Held(token, now_ms, now_ms + OPAQUE_MS, now_ms + OPAQUE_MS)
    left_ms = int(end * 1000) - now_ms
    if left_ms <= 0:
        raise EdgeTokenUnavailable("what its source gave has expired; is the clock right?")
    return _Held(token, now_ms, now_ms + left_ms - min(MARGIN_MS, left_ms // 5), now_ms + left_ms)
