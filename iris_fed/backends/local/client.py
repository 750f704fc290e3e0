"""The controller's end of the launcher's socket: start one if none lives, ask, hear what happens."""

import asyncio
import contextlib
import itertools
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from iris_fed.backends.base import BackendUnavailable
from iris_fed.backends.local import names
from iris_fed.backends.posix.files import Record

PROTOCOL = 2
REQUEST_TIMEOUT_S = 30.0
_MAX_LINE_BYTES = 32 * 1024 * 1024
_START_PATIENCE_S = 15.0
_CONNECT_TIMEOUT_S = 5.0
_RETRY_S = 0.02
_LAUNCHER = Path(__file__).with_name("launcher.py")


class ConnectionLost(BackendUnavailable):
    """The launcher went, or cut us off, before it answered; it may or may not have acted."""


class LauncherClient:
    """One connection. `on_event` gets what the launcher pushes, in order, before later answers."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_event: Callable[[Record], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._on_event = on_event
        self._on_lost = on_lost
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Record]] = {}
        self._is_open = True
        self._task = asyncio.create_task(self._read())

    @property
    def is_open(self) -> bool:
        return self._is_open

    async def request(self, op: str, **fields: object) -> Record:
        """Raises ConnectionLost, or BackendUnavailable when the launcher refused or did not answer."""
        if not self._is_open:
            raise ConnectionLost("the launcher's connection is closed")
        number = next(self._ids)
        answer = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                self._writer.write(json.dumps({"id": number, "op": op, **fields}).encode() + b"\n")
                result: Record = await answer
        except TimeoutError as error:
            raise BackendUnavailable(f"the launcher did not answer {op!r} in {REQUEST_TIMEOUT_S:g} s") from error
        finally:
            self._answers.pop(number, None)
        if "error" in result:
            raise BackendUnavailable(f"the launcher refused {op!r}: {result['error']}")
        return result

    async def close(self) -> None:
        """Let go without a word to `on_lost`."""
        self._on_lost = _nothing
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def wait_closed(self) -> None:
        await asyncio.wait([self._task])

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                self._take(json.loads(line))
        except (OSError, ValueError):
            pass
        finally:
            self._is_open = False
            self._writer.close()
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(ConnectionLost("the launcher's connection broke"))
        self._on_lost()

    def _take(self, message: Record) -> None:
        if "event" in message:
            self._on_event(message)
            return
        answer = self._answers.get(message["id"])
        if answer is not None and not answer.done():
            answer.set_result(message)


async def connect(
    state_dir: Path, idle_s: float, on_event: Callable[[Record], None], on_lost: Callable[[], None]
) -> tuple[LauncherClient, int]:
    """A connection to the launcher of `state_dir`, started if need be, and the launcher's pid.

    Raises BackendUnavailable.
    """
    given_up = threading.Event()
    try:
        opened = await asyncio.to_thread(_open, state_dir, idle_s, given_up)
    except asyncio.CancelledError:
        given_up.set()
        raise
    except OSError as error:
        raise BackendUnavailable(f"cannot start the launcher: {error}") from error
    reader, writer = await asyncio.open_unix_connection(sock=opened, limit=_MAX_LINE_BYTES)
    client = LauncherClient(reader, writer, on_event, on_lost)
    try:
        hello = await client.request("hello")
        if hello["protocol"] != PROTOCOL:
            raise BackendUnavailable(
                f"the running launcher (pid {hello['pid']}) speaks protocol {hello['protocol']}, not {PROTOCOL}:"
                " let its attempts end, or stop it"
            )
    except BaseException:
        await client.close()
        raise
    return client, int(hello["pid"])


def wait_for_exit(pid: int, timeout_s: float) -> bool:
    """Whether the process is gone in time; collects it if it was our child. Blocks."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        gone = bool(select.select([fd], [], [], timeout_s)[0])
    finally:
        os.close(fd)
    collect(pid)
    return gone


def collect(pid: int) -> None:
    """Take a dead child's entry from the process table, if it is one."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _open(state_dir: Path, idle_s: float, given_up: threading.Event) -> socket.socket:
    deadline = time.monotonic() + _START_PATIENCE_S
    while True:
        try:
            return _connect(state_dir)
        except (FileNotFoundError, ConnectionRefusedError):
            if given_up.is_set() or time.monotonic() > deadline:
                raise
        if not _start(state_dir, idle_s):
            # Another launcher holds the lock: it is coming up, or on its way out.
            time.sleep(_RETRY_S)


def _connect(state_dir: Path) -> socket.socket:
    """Through a short path, since a socket's is at most 108 bytes."""
    folder = os.open(state_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_CONNECT_TIMEOUT_S)
        connection.connect(f"/proc/self/fd/{folder}/{names.SOCKET}")
        connection.setblocking(False)
        return connection
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(folder)


def _start(state_dir: Path, idle_s: float) -> bool:
    """Start a launcher in a session of its own; True once it listens, False when it left."""
    argv = [sys.executable, "-I", "-S", "-X", "utf8", str(_LAUNCHER), str(state_dir), str(idle_s)]
    log = os.open(state_dir / names.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    ready, announce = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.posix_spawn(
            sys.executable,
            argv,
            {"LANG": "C.UTF-8", "PATH": os.defpath},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, announce, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}),
        )
    finally:
        os.close(announce)
        os.close(log)
    try:
        listens = bool(select.select([ready], [], [], _START_PATIENCE_S)[0]) and os.read(ready, 16) == b"ready\n"
    finally:
        os.close(ready)
    if not listens:
        wait_for_exit(pid, _CONNECT_TIMEOUT_S)
    return listens


def _nothing() -> None:
    """Nobody wants to know any more."""
