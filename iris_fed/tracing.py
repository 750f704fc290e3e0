"""Traces of what becomes of a job, said to whoever records them; this records nothing.

The rooms below the edge speak to `Tracing` and know nothing of OpenTelemetry.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any


class Tracing:
    """What is remembered is so in memory, and bounded: after a restart nothing joins an earlier trace."""

    def remember(self, key: str) -> None:
        """Later spans of `key` (a job's id, an attempt's uid) belong to what is being traced now."""

    def span(self, name: str, key: str, **attributes: str) -> AbstractContextManager[None]:
        """A part of the trace of `key`; of nothing where no trace is known."""
        return nullcontext()

    def interceptors(self, *, client: bool) -> list[Any]:
        """For RPC clients or servers, so that a trace goes on behind a call."""
        return []

    async def close(self) -> None:
        """Sends what is left, within a bounded time."""
