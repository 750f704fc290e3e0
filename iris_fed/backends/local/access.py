"""Reaching into an attempt: commands in its place, files of its work directory."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from iris_fed.backends.base import NotRunning
from iris_fed.backends.local import files, workdir
from iris_fed.backends.local.records import AttemptRecord, Records
from iris_fed.backends.local.spawn import NO_PROGRAM, NOT_EXECUTABLE, find_program
from iris_fed.model.files import ExecResult, FileChunk, FileListing

_READ_BYTES = 64 * 1024
_JOIN_CGROUP = 'echo $$ > "$0" 2>/dev/null; exec "$@"'
"""The command enters the attempt's cgroup before it begins, so that it ends with the attempt."""


class Access:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def exec(self, uid: str, argv: Sequence[str], timeout_s: float, max_bytes: int) -> ExecResult:
        """Raises NotRunning."""
        record, env = await asyncio.to_thread(self._place, uid)
        try:
            program = find_program(argv[0], env.get("PATH", ""))
        except FileNotFoundError:
            return ExecResult(NO_PROGRAM, b"", f"{argv[0]}: not found in PATH\n".encode())
        words = [program, *argv[1:]]
        if record.cgroup:
            words = ["/bin/sh", "-c", _JOIN_CGROUP, f"{record.cgroup}/cgroup.procs", *words]
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self._work(uid),
                env=env,
                start_new_session=True,
            )
        except OSError as error:
            return ExecResult(NOT_EXECUTABLE, b"", f"{argv[0]}: {error.strerror}\n".encode())
        return await _attend(process, timeout_s, max_bytes)

    async def list_files(self, uid: str, path: str, limit: int) -> FileListing:
        entries, truncated = await asyncio.to_thread(workdir.list_files, self._work(uid), path, limit)
        return FileListing(entries, truncated)

    async def read_file(self, uid: str, path: str, offset: int, max_bytes: int) -> FileChunk:
        return await asyncio.to_thread(workdir.read_file, self._work(uid), path, offset, max_bytes)

    def _work(self, uid: str) -> Path:
        return self._records.folder(uid) / files.WORK

    def _place(self, uid: str) -> tuple[AttemptRecord, dict[str, str]]:
        """The attempt's record and the environment of its main process."""
        record = self._records.attempt(uid)
        if record is None or record.process is None:
            raise NotRunning(uid)
        try:
            raw = Path(f"/proc/{record.process.pid}/environ").read_bytes()
        except OSError:
            raise NotRunning(uid) from None
        pairs = (entry.partition(b"=") for entry in raw.split(b"\0") if b"=" in entry)
        env = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
        if env.get("IRIS_ATTEMPT_UID", uid) != uid:
            raise NotRunning(uid)
        return record, env


async def _attend(process: asyncio.subprocess.Process, timeout_s: float, max_bytes: int) -> ExecResult:
    """Read both outputs, bounded, until the command ends or its time is over."""
    assert process.stdout is not None
    assert process.stderr is not None
    reading = asyncio.gather(_read(process.stdout, max_bytes), _read(process.stderr, max_bytes))
    exit_code: int | None = None
    try:
        async with asyncio.timeout(timeout_s):
            status = await process.wait()
            exit_code = status if status >= 0 else 128 - status
    except TimeoutError:
        exit_code = None
    finally:
        # What it left behind holds the pipes; its session ends with it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        if exit_code is None:
            await process.wait()
    (stdout, cut_out), (stderr, cut_err) = await reading
    return ExecResult(exit_code, stdout, stderr, cut_out or cut_err)


async def _read(stream: asyncio.StreamReader, max_bytes: int) -> tuple[bytes, bool]:
    """The first `max_bytes`; the rest is read and dropped, so that the writer never blocks."""
    kept, cut = bytearray(), False
    while chunk := await stream.read(_READ_BYTES):
        room = max_bytes - len(kept)
        kept += chunk[:room]
        cut = cut or len(chunk) > room
    return bytes(kept), cut
