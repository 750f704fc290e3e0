"""Where things lie that belong to attempts, and how they are written.

    attempts/<uid>/attempt.json   whose it is and what it was given; there before its process is
    attempts/<uid>/process.json   how to find its process
    attempts/<uid>/exit.json      how it ended; there only when nothing of it runs any more
    attempts/<uid>/output.*       see `logformat`
    attempts/<uid>/work/          its working directory
    attempts/<uid>/secrets/       its secret files, until it has ended

Standard library only: what runs beside the tasks imports it too.
"""

import contextlib
import errno
import json
import os
import re
import stat
from collections.abc import Iterable
from typing import Any

ATTEMPTS = "attempts"
ATTEMPT = "attempt.json"
PROCESS = "process.json"
EXIT = "exit.json"
WORK = "work"
SECRETS = "secrets"

Record = dict[str, Any]

MAX_TASKS_BYTES = 64 * 1024
"""Of a record that a task can write over: no keeper's is as long."""
_MAX_RECORD_BYTES = 4 * 1024 * 1024
_NOT_OURS = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO})
_UID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def is_uid(text: str) -> bool:
    """Whether an attempt's uid may name a directory."""
    return _UID.fullmatch(text) is not None


def attempt_folder(state_dir: str, uid: str) -> str:
    return os.path.join(state_dir, ATTEMPTS, uid)


def read_record(path: str, most_bytes: int = _MAX_RECORD_BYTES) -> Record | None:
    """None when there is no such file or it is not one of ours: a task may have written over it, or have put
    something else there. Raises OSError."""
    try:
        with open(path, "rb", opener=open_no_link) as stream:
            is_file = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
            text = stream.read(most_bytes + 1) if is_file else b""
        record = json.loads(text) if len(text) <= most_bytes else None
    except (ValueError, RecursionError):
        return None
    except OSError as error:
        if error.errno not in _NOT_OURS:
            raise
        return None
    return record if isinstance(record, dict) else None


def open_no_link(path: str, flags: int) -> int:
    """For `open`: what a task put in the place of a file leads nowhere. Raises OSError."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def write_record(folder: str, name: str, record: Record, durable: bool) -> None:
    """Whole or not at all. `durable`: survives a power cut (as does the entry of a new `folder`: file
    systems with a journal commit what came before)."""
    path = os.path.join(folder, name)
    draft = f"{path}.tmp"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft)
    # Made anew: what somebody put in its place is not written through.
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as stream:
        stream.write(json.dumps(record).encode())
        stream.flush()
        if durable:
            os.fsync(fd)
    os.rename(draft, path)
    if durable:
        _sync_folder(folder)


def remove_secrets(folder: str, names: Iterable[str] | None = None) -> None:
    """The secret files of the attempt in `folder`: those named, or all that lie there.

    Also from a directory that the task has closed, but not through a link that it put in its place;
    folders that it made in there stay. Raises OSError.
    """
    try:
        fd = os.open(os.path.join(folder, SECRETS), os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        itself = f"/proc/self/fd/{fd}"
        os.chmod(itself, 0o700)
        for name in os.listdir(itself) if names is None else names:
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(name, dir_fd=fd)
    finally:
        os.close(fd)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.join(folder, SECRETS))


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
