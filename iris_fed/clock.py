"""Time and chance, handed in so that a whole system can run under a fake of both.

Waiting is not here: it goes through the event loop, whose clock a simulation replaces.
"""

import random
import secrets
import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall time in epoch milliseconds; what is stored and shown."""
        ...


class Entropy(Protocol):
    def token(self) -> str:
        """A fresh name nobody can guess: 32 lower-case hex digits."""
        ...

    def jitter(self) -> float:
        """A number in [0, 1), to spread retries."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class SystemEntropy:
    def token(self) -> str:
        return secrets.token_hex(16)

    def jitter(self) -> float:
        return random.random()
