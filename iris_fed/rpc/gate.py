"""What every request passes: who asks, whether the role may, and what errors leave."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from connectrpc.errors import ConnectError
from connectrpc.request import RequestContext

from iris_fed.auth.authenticator import Authenticator
from iris_fed.auth.identity import Identity
from iris_fed.auth.network import Network, client_address
from iris_fed.auth.policy import check_allowed
from iris_fed.clock import Entropy
from iris_fed.controller.reach import MAX_EXEC_S
from iris_fed.errors import DeadlineExceeded, IrisFedError
from iris_fed.model.limits import MAX_LONG_POLL_MS
from iris_fed.rpc.audit import AuditLog
from iris_fed.rpc.crowd import Crowd
from iris_fed.rpc.errors import to_connect, to_internal

UNARY_DEADLINE_S = MAX_LONG_POLL_MS / 1000 + 30
"""No unary call is served for longer, whatever its caller thinks; but for commands in a task's place."""
EXEC_DEADLINE_S = MAX_EXEC_S + 30.0

EXEC = "ExecInContainer"

REQ = TypeVar("REQ")
RES = TypeVar("RES")
MAX_CALLS = 512
UNCOUNTED = frozenset({"WatchChanges"})
"""Many tabs of one person wait in it; its own bound lets the oldest go instead of refusing the newest."""

_caller: ContextVar[Identity] = ContextVar("caller")
_client: ContextVar[str] = ContextVar("client", default="")


def caller() -> Identity:
    """Who sent the request being served."""
    return _caller.get()


def client() -> str:
    """The address from which the request being served came, for people to read."""
    return _client.get()


@dataclass(frozen=True, slots=True)
class GateTerms:
    """What the operator decides at the gate. `proxies` are believed about a client's address, for the log;
    `calls` of one caller may be under way."""

    dashboard_reads_content: bool = False
    proxies: Sequence[Network] = ()
    calls: int = MAX_CALLS


class Gate:
    """Runs before the body is read: authenticates, checks the policy table, counts, names the request."""

    def __init__(
        self, authenticator: Authenticator, entropy: Entropy, audit: AuditLog, terms: GateTerms | None = None
    ) -> None:
        self._authenticator = authenticator
        self._entropy = entropy
        self._audit = audit
        self._terms = terms or GateTerms()
        self._crowd = Crowd(self._terms.calls)

    async def on_start(self, ctx: RequestContext[Any, Any]) -> Identity:
        method = f"{ctx.method.service_name}/{ctx.method.name}"
        structlog.contextvars.bind_contextvars(request=self._entropy.token()[:12], method=ctx.method.name)
        headers = joined(ctx.request_headers.allitems())
        peer = ctx.client_address or ""
        _client.set(client_address(peer, headers.get("x-forwarded-for", ""), self._terms.proxies))
        identity: Identity | None = None
        try:
            identity = await self._authenticator.authenticate(headers, peer)
            check_allowed(identity, method, dashboard_reads_content=self._terms.dashboard_reads_content)
            if ctx.method.name not in UNCOUNTED:
                self._crowd.enter(identity)
        except IrisFedError as error:
            line = {"method": ctx.method.name, "client": client()}
            self._audit.denied(line, error.code.value, error.message, identity)
            raise to_connect(error) from None
        structlog.contextvars.bind_contextvars(caller=identity.principal)
        _caller.set(identity)
        return identity

    async def on_end(self, caller: Identity, ctx: RequestContext[Any, Any], _error: Exception | None, /) -> None:
        if ctx.method.name not in UNCOUNTED:
            self._crowd.leave(caller)
        structlog.contextvars.clear_contextvars()


class Errors:
    """Turns what handlers raise into Connect errors; bounds unary calls."""

    async def intercept_unary(
        self, call_next: Callable[[REQ, RequestContext[Any, Any]], Awaitable[RES]], request: REQ, ctx: Any, /
    ) -> RES:
        try:
            async with asyncio.timeout(EXEC_DEADLINE_S if ctx.method.name == EXEC else UNARY_DEADLINE_S):
                return await call_next(request, ctx)
        except IrisFedError as error:
            raise to_connect(error) from None
        except ConnectError:
            raise
        except TimeoutError:
            raise to_connect(DeadlineExceeded("the controller could not answer in time")) from None
        except Exception as error:
            raise to_internal(error, ctx.method.name) from None

    async def intercept_server_stream(
        self, call_next: Callable[[REQ, RequestContext[Any, Any]], AsyncIterator[RES]], request: REQ, ctx: Any, /
    ) -> AsyncIterator[RES]:
        try:
            async for response in call_next(request, ctx):
                yield response
        except IrisFedError as error:
            raise to_connect(error) from None
        except ConnectError:
            raise
        except Exception as error:
            raise to_internal(error, ctx.method.name) from None


def joined(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """By lower-case name. One that is sent twice becomes a list, as HTTP has it: two credentials are none."""
    joined: dict[str, str] = {}
    for name, value in headers:
        name = name.lower()
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
