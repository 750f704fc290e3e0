"""Running Slurm's commands: a few at a time, each bounded in time and output, none on the event loop's way."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from iris_fed.backends.base import BackendUnavailable
from iris_fed.backends.slurm.words import is_passing

AT_ONCE = 4
MAX_OUTPUT_BYTES = 64 * 1024 * 1024
MAX_ERROR_CHARS = 1_000
_MAX_STDERR_BYTES = 64 * 1024
_READ_BYTES = 64 * 1024
_LAST_WORDS_S = 0.5
_KEPT = ("HOME", "LANG", "LC_ALL", "LOGNAME", "USER", "TMPDIR", "KRB5CCNAME")


class CommandRefused(Exception):
    """Slurm answered no, and will again. The message is its own, on one line."""


@dataclass(frozen=True, slots=True)
class Finished:
    """`code` None = it was out of time; 128+n for a signal. Outputs are cut at their bound."""

    code: int | None
    stdout: bytes
    stderr: bytes
    truncated: bool


class Commands:
    def __init__(self, timeout_s: float, bin_dir: str = "") -> None:
        self._timeout_s = timeout_s
        self._bin_dir = bin_dir
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def output(self, argv: Sequence[str], stdin: bytes = b"") -> str:
        """What the command printed. Raises CommandRefused; BackendUnavailable when it hung, could not be
        run, printed too much, or Slurm was not there for it: then nothing is known to have happened."""
        async with self._turn:
            try:
                done = await bounded(
                    argv, self._environment(), self._timeout_s, (MAX_OUTPUT_BYTES, _MAX_STDERR_BYTES), stdin
                )
            except OSError as error:
                raise BackendUnavailable(f"{argv[0]} cannot be run: {error.strerror}") from error
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[:MAX_ERROR_CHARS]
        if done.code is None:
            raise BackendUnavailable(f"{argv[0]} did not answer within {self._timeout_s:g} s")
        if done.code != 0:
            if is_passing(said) or done.code > 128 or not said:
                raise BackendUnavailable(f"{argv[0]}: {said or f'failed with code {done.code}'}")
            raise CommandRefused(said.removeprefix(f"{argv[0]}: error: "))
        if len(done.stdout) >= MAX_OUTPUT_BYTES:
            raise BackendUnavailable(f"{argv[0]} printed more than {MAX_OUTPUT_BYTES} bytes")
        return done.stdout.decode("utf-8", "replace")

    async def execute(self, argv: Sequence[str], timeout_s: float, max_bytes: int) -> Finished:
        """A command whose outcome is the caller's. Raises OSError."""
        return await bounded(argv, self._environment(), timeout_s, (max_bytes, max_bytes))

    def _environment(self) -> dict[str, str]:
        """Ours but for what would change what commands print or jobs inherit."""
        env = {name: os.environ[name] for name in _KEPT if name in os.environ}
        if "SLURM_CONF" in os.environ:
            env["SLURM_CONF"] = os.environ["SLURM_CONF"]
        path = os.environ.get("PATH", os.defpath)
        return env | {"PATH": f"{self._bin_dir}:{path}" if self._bin_dir else path}


async def bounded(
    argv: Sequence[str], env: dict[str, str], timeout_s: float, most: tuple[int, int], stdin: bytes = b""
) -> Finished:
    """Run a command; of its outputs the first `most` bytes each are kept. Whoever goes takes it along.
    Raises OSError."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=env,
        start_new_session=True,
    )
    kept = (bytearray(), bytearray())
    streams = (process.stdout, process.stderr)
    reading = [
        asyncio.ensure_future(_read(stream, into, size)) for stream, into, size in zip(streams, kept, most, strict=True)
    ]
    code: int | None = None
    try:
        async with asyncio.timeout(timeout_s):
            if process.stdin is not None:
                process.stdin.write(stdin)
                with contextlib.suppress(ConnectionError):
                    await process.stdin.drain()
                process.stdin.close()
            await asyncio.wait(reading)
            code = await process.wait()
    except TimeoutError:
        code = None
    finally:
        await _end(process, reading)
    cut = any(future.done() and not future.cancelled() and future.result() for future in reading)
    return Finished(code if code is None or code >= 0 else 128 - code, bytes(kept[0]), bytes(kept[1]), cut)


async def _read(stream: asyncio.StreamReader | None, into: bytearray, most: int) -> bool:
    """To the end; whether something was dropped."""
    assert stream is not None
    dropped = False
    while chunk := await stream.read(_READ_BYTES):
        room = most - len(into)
        into += chunk[:room]
        dropped = dropped or len(chunk) > room
    return dropped


async def _end(process: asyncio.subprocess.Process, reading: "Sequence[asyncio.Future[bool]]") -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_S):
                    await process.wait()
    await asyncio.wait(reading, timeout=_LAST_WORDS_S)
    for future in reading:
        future.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
