"""What the shell offers after a tab. It never waits long, says nothing, and offers nothing when it cannot know."""

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import typer

from iris_fed.cli.parse import UsageError
from iris_fed.errors import IrisFedError

if TYPE_CHECKING:
    from iris_fed.client import Client

LIMIT_S = 1.0
MAX_OFFERED = 100


def jobs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of my newest jobs; whole ids once a `/` was typed."""

    async def ask(client: "Client") -> list[str]:
        from iris_fed.cli.session import home
        from iris_fed.rpc.gen.cluster.controller_pb2 import Controller

        mine = "" if incomplete.startswith("/") else home(await client.whoami(), os.environ)
        query = Controller.JobQuery(job_id_prefix=mine + incomplete, limit=MAX_OFFERED)
        return [job.job_id.removeprefix(mine) for job in (await client.jobs_page(query)).jobs]

    return _ask(ctx, ask)


def peers(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of the controller's peers."""

    async def ask(client: "Client") -> list[str]:
        return [peer.peer_id for peer in (await client.peers()).peers if peer.peer_id.startswith(incomplete)]

    return _ask(ctx, ask)


def backends(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of the controller's own backends."""

    async def ask(client: "Client") -> list[str]:
        answer = await client.backends()
        return [one.backend_id for one in answer.backends if one.backend_id.startswith(incomplete)]

    return _ask(ctx, ask)


def contexts(incomplete: str) -> list[str]:
    """Names in the contexts file."""
    from iris_fed.client.contexts import contexts_path, read_contexts

    try:
        return sorted(name for name in read_contexts(contexts_path()).contexts if name.startswith(incomplete))
    except IrisFedError:
        return []


def _ask(ctx: typer.Context, work: Callable[["Client"], Awaitable[list[str]]]) -> list[str]:
    from iris_fed.cli.session import with_client

    async def bounded(client: "Client") -> list[str]:
        import asyncio

        async with asyncio.timeout(LIMIT_S):
            return await work(client)

    try:
        return with_client(ctx.params.get("controller"), ctx.params.get("context"), bounded)
    except (IrisFedError, UsageError, OSError):
        return []
