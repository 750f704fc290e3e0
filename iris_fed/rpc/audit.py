"""Who did what, from where, and whether it was allowed: one line `audit` for each call that changes
something, or that was denied. What was asked for stays out of it, but for whom it concerns. Of denied calls
only so many are written (`auth.denials`); the rest is counted.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from connectrpc.code import Code
from connectrpc.errors import ConnectError
from connectrpc.request import RequestContext

from iris_fed.auth.denials import WINDOW_MS, Denials
from iris_fed.auth.identity import Identity
from iris_fed.clock import Clock
from iris_fed.telemetry import get_logger

SUBJECTS = ("job_id", "task_id", "name", "peer", "token_id", "user_id", "user", "id")
"""Fields that say whom a call concerns; the first that a message has."""
MAX_CHARS = 500
_READS = ("Get", "List", "Read", "Check", "Watch", "FederationSync")
_DENIALS = frozenset({Code.UNAUTHENTICATED, Code.PERMISSION_DENIED, Code.RESOURCE_EXHAUSTED})

REQ = TypeVar("REQ")
RES = TypeVar("RES")
log = get_logger(__name__)


def changes_something(method: str) -> bool:
    """Of a method's name. What is not known to read is taken for a change."""
    return not method.startswith(_READS)


class AuditLog:
    """Where the lines of one controller go."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._denials = Denials()

    def allowed(self, line: dict[str, str]) -> None:
        log.info("audit", outcome="allowed", **line)

    def failed(self, line: dict[str, str], code: str, reason: str) -> None:
        log.warning("audit", outcome="failed", code=code, reason=reason[:MAX_CHARS], **line)

    def denied(self, line: dict[str, str], code: str, reason: str, caller: Identity | None = None) -> None:
        """`caller` None = nobody knows who it is, or `line` says it."""
        verdict = self._denials.judge(line["client"], self._clock.now_ms())
        for client, count in verdict.left_out:
            log.warning("audit.left_out", client=client or "others", denied=count)
        if not verdict.written:
            return
        who = {} if caller is None else _who(caller)
        log.warning("audit", outcome="denied", code=code, reason=reason[:MAX_CHARS], **line, **who)
        if verdict.is_last:
            log.warning("audit.counting", client=line["client"], for_s=WINDOW_MS // 1000)


class Audit:
    """Sees each call inside of the gate. `caller` and `client` tell who sends the present one, and from where."""

    def __init__(self, log: AuditLog, caller: Callable[[], Identity], client: Callable[[], str]) -> None:
        self._log = log
        self._caller = caller
        self._client = client

    async def intercept_unary(
        self, call_next: Callable[[REQ, RequestContext[Any, Any]], Awaitable[RES]], request: REQ, ctx: Any, /
    ) -> RES:
        try:
            answer = await call_next(request, ctx)
        except ConnectError as error:
            self._write(ctx.method.name, _subject(request), error)
            raise
        self._write(ctx.method.name, _subject(answer) or _subject(request), None)
        return answer

    async def intercept_server_stream(
        self, call_next: Callable[[REQ, RequestContext[Any, Any]], AsyncIterator[RES]], request: REQ, ctx: Any, /
    ) -> AsyncIterator[RES]:
        try:
            async for response in call_next(request, ctx):
                yield response
        except ConnectError as error:
            self._write(ctx.method.name, _subject(request), error)
            raise

    def _write(self, method: str, subject: str, error: ConnectError | None) -> None:
        is_denied = error is not None and error.code in _DENIALS
        if not is_denied and not changes_something(method):
            return
        line = {"method": method, "client": self._client(), "subject": subject, **_who(self._caller())}
        if error is None:
            self._log.allowed(line)
        elif is_denied:
            self._log.denied(line, error.code.value, error.message or "")
        else:
            self._log.failed(line, error.code.value, error.message or "")


def _who(caller: Identity) -> dict[str, str]:
    return {"caller": caller.principal, "role": caller.role.value, "source": caller.source.value}


def _subject(message: Any) -> str:
    for name in SUBJECTS:
        value = getattr(message, name, "")
        if isinstance(value, str) and value:
            return value[:MAX_CHARS]
    return ""
