"""What every request passes: who asks, whether the role may, and what errors leave."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar

import structlog
from connectrpc.errors import ConnectError
from connectrpc.request import RequestContext

from iris_fed.auth.authenticator import Authenticator
from iris_fed.auth.identity import Identity, Role
from iris_fed.auth.policy import check_allowed
from iris_fed.clock import Entropy
from iris_fed.controller.reach import MAX_EXEC_S
from iris_fed.errors import DeadlineExceeded, IrisFedError, PermissionDenied
from iris_fed.model.jobs import JobQuery
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


def check_reach(job_id: str) -> None:
    """Raises PermissionDenied when a task asks for a job that is not its own or below it."""
    if not caller().may_reach(job_id):
        raise PermissionDenied(f"a task sees only its own job {caller().subtree} and what is below it")


def within_reach(query: JobQuery) -> JobQuery:
    """A task's listing holds only what is below its own job."""
    if caller().role is not Role.JOB:
        return query
    below = caller().subtree + "/"
    if query.job_id_prefix and not query.job_id_prefix.startswith(below):
        check_reach(query.job_id_prefix)
    return replace(query, job_id_prefix=query.job_id_prefix if query.job_id_prefix.startswith(below) else below)


class Gate:
    """Runs before the body is read: authenticates, checks the policy table, names the request."""

    def __init__(self, authenticator: Authenticator, entropy: Entropy) -> None:
        self._authenticator = authenticator
        self._entropy = entropy

    async def on_start(self, ctx: RequestContext[Any, Any]) -> None:
        method = f"{ctx.method.service_name}/{ctx.method.name}"
        structlog.contextvars.bind_contextvars(request=self._entropy.token()[:12], method=ctx.method.name)
        headers = {name.lower(): value for name, value in ctx.request_headers.items()}
        try:
            identity = await self._authenticator.authenticate(headers)
            check_allowed(identity, method)
        except IrisFedError as error:
            log.warning("rpc.denied", code=error.code.value, client=ctx.client_address, reason=error.message)
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
