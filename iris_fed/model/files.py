"""Files of a task's work directory as they cross rooms. Paths are relative, parts separated by `/`."""

import re
from dataclasses import dataclass

from iris_fed.errors import InvalidArgument

MAX_PATH_CHARS = 4_096
MAX_PATH_PARTS = 128
_SECRET_FILE_NAME = re.compile(r"(?!\.\.?$)[A-Za-z0-9._-]{1,128}")


@dataclass(frozen=True, slots=True)
class FileEntry:
    """`size` in bytes (0 for a folder), `modified_ms` in epoch milliseconds, `mode` permission bits."""

    path: str
    is_folder: bool
    size: int
    modified_ms: int
    mode: int


@dataclass(frozen=True, slots=True)
class FileChunk:
    """Bytes of a file, and the size of the whole."""

    data: bytes
    size: int


@dataclass(frozen=True, slots=True)
class FileListing:
    """`truncated`: the folder holds more."""

    entries: tuple[FileEntry, ...]
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a command in a task's place did. `exit_code` None = it did not end in time; outputs are
    cut at their bound, which `truncated` says."""

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    truncated: bool = False


class NoSuchFile(Exception):
    """`reason` is the rest of a sentence that begins with the path."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'the work directory'} {reason}")


class UnsafeBundle(Exception):
    """A bundle that must not be unpacked; the message goes on from "the bundle"."""


def is_secret_file_name(name: str) -> bool:
    """Plain enough to lie in the one directory where a task finds its secret files."""
    return _SECRET_FILE_NAME.fullmatch(name) is not None


def split_path(path: str, field: str = "path") -> tuple[str, ...]:
    """The parts of a path that stays below its start. Raises InvalidArgument, naming `field`."""
    parts = tuple(path.split("/"))
    if len(parts) > MAX_PATH_PARTS:
        raise InvalidArgument(f"{path[:80]!r} is more than {MAX_PATH_PARTS} folders deep", field)
    if len(path) > MAX_PATH_CHARS or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise InvalidArgument(
            f"{path[:80]!r} is no path below the work directory: relative, without '.', '..' or empty parts", field
        )
    return parts
