"""Reaching into an attempt: commands in its place, files of its work directory."""

import asyncio
import contextlib
import json
import os
import pwd
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from iris_fed.backends.base import NotRunning
from iris_fed.backends.local.records import AttemptRecord, Records
from iris_fed.backends.posix import files, workdir
from iris_fed.backends.posix.accounts import NoAccount, find_account
from iris_fed.backends.posix.spawn import NO_PROGRAM, NOT_EXECUTABLE, Account, find_program
from iris_fed.model.files import ExecResult, FileChunk, FileListing

_READ_BYTES = 64 * 1024
_GUARD = Path(__file__).with_name("exec_guard.py")
_ENVIRON_TRIES = 50
_ENVIRON_PAUSE_S = 0.02
_LAST_WORDS_S = 0.5
"""How long the outputs are still read once the command is over, should others hold them open."""
_JOIN_CGROUP = 'echo $$ > "$0" 2>/dev/null; exec "$@"'
"""The command enters the attempt's cgroup before it begins, so that it ends with the attempt."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one command. `over` returns when the attempt has ended."""

    timeout_s: float
    max_bytes: int
    over: Coroutine[None, None, None]


class Access:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def exec(self, uid: str, argv: Sequence[str], bounds: Bounds) -> ExecResult:
        """Raises NotRunning."""
        try:
            return await self._exec(uid, argv, bounds)
        finally:
            bounds.over.close()

    async def _exec(self, uid: str, argv: Sequence[str], bounds: Bounds) -> ExecResult:
        record, env = await asyncio.to_thread(self._place, uid)
        try:
            program = find_program(argv[0], env.get("PATH", ""))
        except FileNotFoundError:
            return ExecResult(NO_PROGRAM, b"", f"{argv[0]}: not found in PATH\n".encode())
        words = [program, *argv[1:]]
        account = await asyncio.to_thread(self._account, uid)
        # Another account may not join the cgroup, nor may anything obey the task's environment as us.
        in_cgroup = bool(record.cgroup) and account is None
        if in_cgroup:
            words = ["/bin/sh", "-c", _JOIN_CGROUP, f"{record.cgroup}/cgroup.procs", *words]
        else:
            words = [sys.executable, "-I", "-S", str(_GUARD), *words]
        terms = b"" if in_cgroup else json.dumps({"env": env, "account": account}).encode()
        async with _Output(bounds.max_bytes) as stdout, _Output(bounds.max_bytes) as stderr:
            stdin = _input(terms)
            try:
                process = await asyncio.create_subprocess_exec(
                    *words,
                    stdin=stdin,
                    stdout=stdout.write_fd,
                    stderr=stderr.write_fd,
                    cwd=self._work(uid),
                    env=env if in_cgroup else {"PATH": os.defpath},
                    start_new_session=True,
                )
            except OSError as error:
                return ExecResult(NOT_EXECUTABLE, b"", f"{argv[0]}: {error.strerror}\n".encode())
            finally:
                os.close(stdin)
            killing = signal.SIGKILL if in_cgroup else signal.SIGTERM
            exit_code = await _attend(process, (stdout, stderr), bounds, killing)
            return ExecResult(exit_code, bytes(stdout.kept), bytes(stderr.kept), stdout.cut or stderr.cut)

    async def list_files(self, uid: str, path: str, limit: int) -> FileListing:
        entries, truncated = await asyncio.to_thread(workdir.list_files, self._work(uid), path, limit)
        return FileListing(entries, truncated)

    async def read_file(self, uid: str, path: str, offset: int, max_bytes: int) -> FileChunk:
        return await asyncio.to_thread(workdir.read_file, self._work(uid), path, offset, max_bytes)

    def _work(self, uid: str) -> Path:
        return self._records.folder(uid) / files.WORK

    def _account(self, uid: str) -> Account | None:
        """Whom the attempt runs as, None = as we do: its work directory tells, which no task can give away.
        Raises NotRunning."""
        try:
            owner = os.stat(self._work(uid)).st_uid
            return None if owner == os.geteuid() else find_account(pwd.getpwuid(owner).pw_name)
        except (OSError, KeyError, NoAccount):
            raise NotRunning(uid) from None

    def _place(self, uid: str) -> tuple[AttemptRecord, dict[str, str]]:
        """The attempt's record and the environment of its main process."""
        record = self._records.attempt(uid)
        if record is None or record.process is None:
            raise NotRunning(uid)
        env: dict[str, str] = {}
        for _ in range(_ENVIRON_TRIES):
            env = _environment_of(record.process.pid, uid)
            if env.get("IRIS_ATTEMPT_UID") == uid:
                return record, env
            # It is just becoming its program.
            time.sleep(_ENVIRON_PAUSE_S)
        if env.get("IRIS_ATTEMPT_UID", uid) != uid:
            raise NotRunning(uid)
        # It has written over its own environment.
        return record, {"PATH": os.defpath, **env}


def _input(content: bytes) -> int:
    """A file that lies nowhere and holds this."""
    fd = os.memfd_create("input", os.MFD_CLOEXEC)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _environment_of(pid: int, uid: str) -> dict[str, str]:
    """Raises NotRunning."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        raise NotRunning(uid) from None
    pairs = (entry.partition(b"=") for entry in raw.split(b"\0") if b"=" in entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


async def _attend(
    process: asyncio.subprocess.Process, outputs: "tuple[_Output, _Output]", bounds: Bounds, killing: signal.Signals
) -> int | None:
    """Until the command ends; None when its attempt, or its time, was over first: its group is sent
    `killing` then. The outputs are read to their end, but not for long: who left the session may
    hold them for ever."""
    reading = [asyncio.create_task(output.read()) for output in outputs]
    waiting, over = asyncio.create_task(process.wait()), asyncio.create_task(bounds.over)
    try:
        await asyncio.wait({waiting, over}, timeout=bounds.timeout_s, return_when=asyncio.FIRST_COMPLETED)
        status = waiting.result() if waiting.done() else None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, killing)
        await process.wait()
        await asyncio.wait(reading, timeout=_LAST_WORDS_S)
        for task in (*reading, waiting, over):
            task.cancel()
        await asyncio.gather(*reading, waiting, over, return_exceptions=True)
    return status if status is None or status >= 0 else 128 - status


class _Output:
    """A pipe for one output, of which the first `max_bytes` are kept; the rest is read and dropped, so
    that the writer never blocks. Not asyncio's own: with that a process has not ended while anybody
    holds its pipe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.kept = bytearray()
        self.cut = False
        self.write_fd = -1

    async def __aenter__(self) -> Self:
        read_fd, self.write_fd = os.pipe2(os.O_CLOEXEC)
        self._stream = asyncio.StreamReader()
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._stream), os.fdopen(read_fd, "rb", buffering=0)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._close_writer()
        self._transport.close()

    async def read(self) -> None:
        """To the end; call it once the writer was started."""
        self._close_writer()
        while chunk := await self._stream.read(_READ_BYTES):
            room = self._max_bytes - len(self.kept)
            self.kept += chunk[:room]
            self.cut = self.cut or len(chunk) > room

    def _close_writer(self) -> None:
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1
