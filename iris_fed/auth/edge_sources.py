"""Where edge tokens come from: a file, a variable, a command, or Google's library. Each is bounded in time and size."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import PurePath
from typing import Any

import anyio

from iris_fed.config.edge_tokens import parse_edge_token

LIMIT_S = 10.0
MAX_OUTPUT_BYTES = 65_536

Source = Callable[[], Awaitable[str]]


class EdgeTokenUnavailable(ConnectionError):
    """There is no edge token, and so no way to the controller behind the proxy. Says why, never what was got."""


def source_of(reference: str, quiet: bool) -> Source:
    """Raises ValueError for what is no reference."""
    source = parse_edge_token(reference)
    match source.kind:
        case "file":
            return partial(_from_file, os.path.expanduser(source.value))
        case "env":
            return partial(_from_variable, source.value)
        case "command":
            return partial(_from_command, source.argv, quiet)
        case "google":
            return partial(_from_google, source.value)


async def _from_file(path: str) -> str:
    def read() -> bytes:
        with open(path, "rb") as file:
            return file.read(MAX_OUTPUT_BYTES)

    try:
        with anyio.fail_after(LIMIT_S):
            return _text(await anyio.to_thread.run_sync(read, abandon_on_cancel=True))
    except TimeoutError:
        raise EdgeTokenUnavailable(f"{path} could not be read within {LIMIT_S:g} s") from None
    except OSError as error:
        raise EdgeTokenUnavailable(f"cannot read {path}: {error.strerror}") from error


async def _from_variable(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise EdgeTokenUnavailable("the variable that is to hold it is not set")
    return value


async def _from_command(argv: tuple[str, ...], quiet: bool) -> str:
    name = PurePath(argv[0]).name
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL if quiet else None,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise EdgeTokenUnavailable(f"cannot run {name}: {getattr(error, 'strerror', None) or error}") from error
    ended = False
    try:
        async with asyncio.timeout(LIMIT_S):
            output = await _all_of(process, name)
            code = await process.wait()
            ended = True
    except TimeoutError:
        raise EdgeTokenUnavailable(f"{name} did not end within {LIMIT_S:g} s") from None
    finally:
        if not ended:
            # The whole group: what it started may hold its output open after its own end.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if code != 0:
        raise EdgeTokenUnavailable(f"{name} ended with {code}; run it by hand to see why")
    return _text(output)


async def _all_of(process: asyncio.subprocess.Process, name: str) -> bytes:
    assert process.stdout is not None
    output = bytearray()
    while chunk := await process.stdout.read(MAX_OUTPUT_BYTES):
        output += chunk
        if len(output) > MAX_OUTPUT_BYTES:
            raise EdgeTokenUnavailable(f"{name} printed more than {MAX_OUTPUT_BYTES} bytes, so it is no token")
    return bytes(output)


async def _from_google(audience: str) -> str:
    try:
        with anyio.fail_after(LIMIT_S):
            return await anyio.to_thread.run_sync(_ask_google, audience, abandon_on_cancel=True)
    except TimeoutError:
        raise EdgeTokenUnavailable(f"Google gave no token within {LIMIT_S:g} s") from None


def _ask_google(audience: str) -> str:
    """With the service account or machine that this process is, as google-auth finds it. Blocks."""
    # By name, since it is an extra that is not there otherwise.
    try:
        id_token: Any = import_module("google.oauth2.id_token")
        transport: Any = import_module("google.auth.transport.requests")
        exceptions: Any = import_module("google.auth.exceptions")
    except ImportError:
        raise EdgeTokenUnavailable("google: needs google-auth: pip install 'iris-fed[google]'") from None
    try:
        return str(id_token.fetch_id_token(partial(transport.Request(), timeout=LIMIT_S), audience))
    except exceptions.DefaultCredentialsError as error:
        raise EdgeTokenUnavailable(f"google-auth finds no credentials: {str(error)[:300]}") from error
    except (exceptions.GoogleAuthError, OSError, ValueError) as error:
        # Its words may quote an answer, and with it a token.
        raise EdgeTokenUnavailable(f"google-auth failed: {type(error).__name__}") from error


def _text(data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise EdgeTokenUnavailable("what its source gave is no token") from None
