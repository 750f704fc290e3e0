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
from iris_fed.rpc.errors import to_connect, to_internal
from iris_fed.telemetry import get_logger

UNARY_DEADLINE_S = MAX_LONG_POLL_MS / 1000 + 30
"""No unary call is served for longer, whatever its caller thinks; but for commands in a task's place."""
EXEC_DEADLINE_S = MAX_EXEC_S + 30.0

EXEC = "ExecInContainer"

REQ = TypeVar("REQ")
RES = TypeVar("RES")
log = get_logger(__name__)

_caller: ContextVar[Identity] = ContextVar("caller")


def caller() -> Identity:
    """Who sent the request being served."""
    return _caller.get()


@dataclass(frozen=True, slots=True)
class GateTerms:
    """What the operator decides at the gate. `proxies` are believed about a client's address, for the log."""

    dashboard_reads_content: bool = False
    proxies: Sequence[Network] = ()


class Gate:
    """Runs before the body is read: authenticates, checks the policy table, names the request."""

    def __init__(self, authenticator: Authenticator, entropy: Entropy, terms: GateTerms | None = None) -> None:
        self._authenticator = authenticator
        self._entropy = entropy
        self._terms = terms or GateTerms()

    async def on_start(self, ctx: RequestContext[Any, Any]) -> None:
        method = f"{ctx.method.service_name}/{ctx.method.name}"
        structlog.contextvars.bind_contextvars(request=self._entropy.token()[:12], method=ctx.method.name)
        headers = joined(ctx.request_headers.allitems())
        peer = ctx.client_address or ""
        try:
            identity = await self._authenticator.authenticate(headers, peer)
            check_allowed(identity, method, dashboard_reads_content=self._terms.dashboard_reads_content)
        except IrisFedError as error:
            client = client_address(peer, headers.get("x-forwarded-for", ""), self._terms.proxies)
            log.warning("rpc.denied", code=error.code.value, client=client, reason=error.message)
            raise to_connect(error) from None
        structlog.contextvars.bind_contextvars(caller=identity.principal)
        _caller.set(identity)

    async def on_end(self, _token: None, _ctx: RequestContext[Any, Any], _error: Exception | None, /) -> None:
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
