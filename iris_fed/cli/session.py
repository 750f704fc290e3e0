"""One command's talk with a controller: find it, connect, run, tidy up."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from iris_fed.cli.parse import UsageError
from iris_fed.client import Client, Target, find_target
from iris_fed.rpc.connect_client import keep_loopback_off_proxies
from iris_fed.rpc.gen.job import job_pb2

T = TypeVar("T")


def with_client(controller: str | None, context: str | None, work: Callable[[Client], Awaitable[T]]) -> T:
    """Run `work` with a client of the chosen controller.

    Raises the errors of the SDK, and KeyboardInterrupt after Ctrl+C once the work was cancelled.
    """
    if controller and context:
        raise UsageError("give --controller or --context, not both")
    target = find_target(controller=controller, context=context)
    return run_async(_connected(target, work))


def run_async(work: Coroutine[Any, Any, T]) -> T:
    keep_loopback_off_proxies()
    return asyncio.run(work)


async def full_id(client: Client, name: str) -> str:
    """`train` as /<you>/train, `train/0` likewise; a whole id as it is. Asks the controller who you are."""
    return (await full_ids(client, [name]))[0]


async def full_ids(client: Client, names: list[str]) -> list[str]:
    """As `full_id`, asking once."""
    if all(name.startswith("/") for name in names):
        return names
    prefix = home(await client.whoami(), os.environ)
    return [name if name.startswith("/") else prefix + name for name in names]


def home(me: job_pb2.GetCurrentUserResponse, environ: Mapping[str, str]) -> str:
    """What the ids of one's own jobs begin with: the user's, and inside a task those of its job's children."""
    own = environ.get("IRIS_JOB_ID", "") if me.role == "job" else ""
    return f"{own}/" if own else f"/{me.user_id}/"


def as_json(message: Message) -> dict[str, Any]:
    """The message as the controller's own JSON answer would hold it."""
    return MessageToDict(message)


async def _connected(target: Target, work: Callable[[Client], Awaitable[T]]) -> T:
    async with Client.for_target(target) as client:
        return await work(client)
