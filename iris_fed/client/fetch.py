"""Bringing files of a task's work directory here, so that a broken transfer goes on where it was.

What the controller names is not trusted: nothing lands outside the destination, and no link that lies
there is followed. A file in transfer is `NAME.<mark>.part` beside its target, the mark being that of
the remote file's size and time, so that the rest of another version is never appended to it.
"""

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Protocol

from iris_fed.client.file_stream import Piece
from iris_fed.errors import Aborted, FailedPrecondition, InvalidArgument, ResourceExhausted
from iris_fed.model.files import split_path
from iris_fed.rpc.gen.irisfed import cluster_pb2

MAX_FILES = 100_000
MAX_BYTES = 10**12
_MARK_CHARS = 8
_MAX_PART_STEM_BYTES = 200
_PART = re.compile(rf"(?P<stem>.+)\.[0-9a-f]{{{_MARK_CHARS}}}\.part", re.DOTALL)
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PART_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Progress = Callable[[str, int, int], None]
"""Told the path, the bytes of it that are here, and its size."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a fetch did: `files` are here now; of their bytes, `received_bytes` were sent and
    `kept_bytes` had been here before."""

    files: int = 0
    received_bytes: int = 0
    kept_bytes: int = 0


class Source(Protocol):
    """One attempt's files, as the SDK reads them; `key` tells them from those of others."""

    @property
    def key(self) -> str: ...

    async def list(self, path: str) -> cluster_pb2.ListFilesResponse: ...

    def read(self, path: str, offset: int) -> AsyncIterator[Piece]: ...


class Budget:
    """What may be brought: bytes, and MAX_FILES files and folders."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries = 0

    def expect(self, entry: cluster_pb2.FileEntry, entries: int) -> None:
        """Raises ResourceExhausted when `entry`, which counts as `entries`, is too much."""
        self._entries += entries
        if self._entries > MAX_FILES:
            raise ResourceExhausted(f"there are more than {MAX_FILES} files and folders; fetch them in parts")
        if self._bytes + entry.size > self._max_bytes:
            raise ResourceExhausted(f"{entry.path} would bring it over {self._max_bytes} bytes")

    def spend(self, path: str, count: int) -> None:
        """Raises ResourceExhausted."""
        self._bytes += count
        if self._bytes > self._max_bytes:
            raise ResourceExhausted(f"{path} brings it over {self._max_bytes} bytes")


async def fetch(
    source: Source,
    path: str,
    destination: str | os.PathLike[str],
    *,
    max_bytes: int = MAX_BYTES,
    progress: Progress | None = None,
) -> Fetched:
    """Put the file or folder `path` into the folder `destination` (made when absent), under its own name;
    for '' or '.', the whole work directory, what is in it.

    A file that is here with the same size and time is not sent again. Raises InvalidArgument for a path
    outside, FailedPrecondition for what cannot be written or was named outside, ResourceExhausted beyond
    `max_bytes` or MAX_FILES, and what `source` raises; what had arrived then stays for the next try.
    """
    return await fetch_within(Budget(max_bytes), source, path, Path(destination), progress)


async def fetch_within(
    budget: Budget, source: Source, path: str, destination: Path, progress: Progress | None = None
) -> Fetched:
    """The same, out of a budget that several fetches may share."""
    wanted = "" if path in ("", ".") else path.removeprefix("./").rstrip("/")
    parts = split_path(wanted) if wanted else ()
    landing = _Landing(destination, len(parts) - 1 if parts else 0)
    try:
        return await _Transfer(source, landing, budget, progress or _silent).run(wanted)
    except OSError as error:
        raise FailedPrecondition(f"cannot write {landing.shown(error.filename)}: {error.strerror}") from error


class _Landing:
    """The local folder; `skipped` is how many leading parts of a remote path have no place here."""

    def __init__(self, root: Path, skipped: int) -> None:
        self._root = root
        self._skipped = skipped

    def shown(self, name: object) -> str:
        return str(name or self._root)

    @contextlib.contextmanager
    def folder(self, remote: str) -> Iterator[int]:
        """A descriptor of where the remote folder lands, made when absent."""
        self._root.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in split_path(remote)[self._skipped :] if remote else ():
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=fd)
                try:
                    inner = os.open(part, _FOLDER_FLAGS, dir_fd=fd)
                except OSError as error:
                    raise FailedPrecondition(f"{self._root}: {part!r} of {remote!r} is a link or no folder") from error
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)


class _Transfer:
    """One fetch, one file at a time."""

    def __init__(self, source: Source, landing: _Landing, budget: Budget, progress: Progress) -> None:
        self._source = source
        self._landing = landing
        self._budget = budget
        self._progress = progress
        self._done = Fetched()

    async def run(self, path: str) -> Fetched:
        first = await self._source.list(path)
        if path and len(first.entries) == 1 and first.entries[0].path == path and not first.entries[0].is_folder:
            above = path.rpartition("/")[0]
            self._budget.expect(first.entries[0], 1)
            with self._landing.folder(above) as fd:
                await self._files(fd, above, [first.entries[0]])
            return self._done
        folders = await self._folder(path, first)
        while folders:
            folder = folders.pop()
            folders += await self._folder(folder, await self._source.list(folder))
        return self._done

    async def _folder(self, path: str, listing: cluster_pb2.ListFilesResponse) -> list[str]:
        """Fetch its files; the folders in it."""
        if listing.truncated:
            raise ResourceExhausted(
                f"{path or 'the work directory'} holds more than the controller lists; fetch its parts, or an archive"
            )
        for entry in listing.entries:
            self._budget.expect(entry, 1)
            _check_child(entry.path, path)
        with self._landing.folder(path) as fd:
            await self._files(fd, path, [entry for entry in listing.entries if not entry.is_folder])
        return [entry.path for entry in reversed(listing.entries) if entry.is_folder]

    async def _files(self, folder_fd: int, folder: str, entries: list[cluster_pb2.FileEntry]) -> None:
        parts = _parts_in(folder_fd)
        for entry in entries:
            self._budget.expect(entry, 0)
            name = entry.path.rpartition("/")[2]
            kept = _size_if_same(folder_fd, name, entry)
            if kept is None:
                part = _part_name(self._source.key, name, entry)
                for stale in parts.get(_stem(name), set()) - {part}:
                    os.unlink(stale, dir_fd=folder_fd)
                await self._file(folder_fd, name, part, entry)
            else:
                self._progress(entry.path, kept, kept)
                self._keep(entry.path, kept)
            self._done = replace(self._done, files=self._done.files + 1)

    async def _file(self, folder_fd: int, name: str, part: str, entry: cluster_pb2.FileEntry) -> None:
        with _opened_part(folder_fd, part, entry.size) as file:
            offset = file.seek(0, os.SEEK_END)
            self._keep(entry.path, offset)
            async for piece in self._source.read(entry.path, offset):
                file.write(piece.data)
                offset += len(piece.data)
                self._done = replace(self._done, received_bytes=self._done.received_bytes + len(piece.data))
                self._progress(entry.path, offset, piece.size)
                self._budget.spend(entry.path, len(piece.data))
            if offset < entry.size:
                raise Aborted(f"{entry.path} became shorter while it was fetched; fetch it again")
            file.flush()
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if entry.mode & 0o111:
                os.fchmod(file.fileno(), mode | (mode & 0o444) >> 2)
            os.utime(file.fileno(), ns=(entry.modified_ms * 1_000_000,) * 2)
            os.replace(part, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)

    def _keep(self, path: str, count: int) -> None:
        self._done = replace(self._done, kept_bytes=self._done.kept_bytes + count)
        self._budget.spend(path, count)


def _check_child(path: str, folder: str) -> None:
    """What a controller says is in a folder is in it, and one level below."""
    inside = path.removeprefix(folder + "/") if folder else path
    try:
        parts = split_path(inside)
    except InvalidArgument:
        parts = ()
    if len(parts) != 1 or (folder and inside == path):
        raise FailedPrecondition(f"the controller named {path[:80]!r}, which is not in {folder or '.'!r}: refused")


def _size_if_same(folder_fd: int, name: str, entry: cluster_pb2.FileEntry) -> int | None:
    try:
        status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    same = (status.st_size, status.st_mtime_ns // 1_000_000) == (entry.size, entry.modified_ms)
    return status.st_size if stat.S_ISREG(status.st_mode) and same else None


def _part_name(key: str, name: str, entry: cluster_pb2.FileEntry) -> str:
    version = f"{key}\0{entry.path}\0{entry.size}\0{entry.modified_ms}"
    return f"{_stem(name)}.{sha256(version.encode()).hexdigest()[:_MARK_CHARS]}.part"


def _stem(name: str) -> str:
    """Short enough that a file system takes it with its mark."""
    return name.encode()[:_MAX_PART_STEM_BYTES].decode(errors="ignore")


def _parts_in(folder_fd: int) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name in os.listdir(folder_fd):
        if match := _PART.fullmatch(name):
            found.setdefault(match["stem"], set()).add(name)
    return found


@contextlib.contextmanager
def _opened_part(folder_fd: int, part: str, size: int) -> Iterator[BinaryIO]:
    """Held by one fetch at a time; emptied when it holds more than the whole."""
    fd = os.open(part, _PART_FLAGS, 0o666, dir_fd=folder_fd)
    with os.fdopen(fd, "r+b") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise FailedPrecondition(f"{part!r} is in the way: it is no file")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FailedPrecondition(f"{part!r} is being written by another fetch") from None
        if os.fstat(fd).st_size > size:
            file.truncate(0)
        yield file


def _silent(path: str, done: int, size: int) -> None:
    """No progress is wanted."""
