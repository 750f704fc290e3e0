"""A task's work directory from outside: filled before the start, read afterwards. Blocking; for threads.

Tasks own what is in it, so nothing here follows a link or leaves the directory (zip slip, links
planted for a reader), and nothing grows without bound (zip bombs).
"""

import contextlib
import errno
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from iris_fed.errors import InvalidArgument
from iris_fed.model.files import FileChunk, FileEntry, NoSuchFile, UnsafeBundle, split_path

MAX_UNPACKED_BYTES = 1024**3
MAX_UNPACKED_FILES = 100_000
_LASTING = frozenset({errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EINVAL})
_IN_THE_WAY = {
    errno.ELOOP: "is a link; links are not followed",
    errno.ENOTDIR: "does not lie in a folder; links are not followed",
}
_COPY_BYTES = 1024 * 1024
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def fill(work: Path, files: Mapping[str, bytes], bundle: Path | None) -> None:
    """Unpack `bundle`, then write `files` over it. May be repeated. Raises UnsafeBundle for what will
    never do, OSError for what may do later."""
    work.mkdir(mode=0o755, parents=True, exist_ok=True)
    if bundle is not None:
        _unpack(work, bundle)
    for path, content in files.items():
        with _lasting(path):
            target = work.joinpath(*split_path(path))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


@contextlib.contextmanager
def _lasting(path: str) -> Iterator[None]:
    """Tells what the paths themselves make impossible from what only the disk does now."""
    try:
        yield
    except InvalidArgument as error:
        raise UnsafeBundle(error.message) from None
    except OSError as error:
        if error.errno in _LASTING:
            raise UnsafeBundle(f"{path[:200]!r}: {error.strerror}") from error
        raise


def list_files(work: Path, path: str, limit: int) -> tuple[tuple[FileEntry, ...], bool]:
    """The file, or what the folder holds by name, and whether there is more. Raises NoSuchFile."""
    parts = split_path(path) if path else ()
    with _opened(work, parts) as fd:
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode):
            return (_entry("/".join(parts), status),), False
        names = sorted(name for name in os.listdir(fd) if _is_text(name))
        entries = []
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
                    entries.append(_entry("/".join((*parts, name)), status))
            if len(entries) > limit:
                break
        return tuple(entries[:limit]), len(entries) > limit


def read_file(work: Path, path: str, offset: int, max_bytes: int) -> FileChunk:
    """At most `max_bytes` from `offset` on; empty at the end. Raises NoSuchFile."""
    with _opened(work, split_path(path)) as fd:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise NoSuchFile(path, "is a folder")
        return FileChunk(os.pread(fd, max_bytes, offset), status.st_size)


@contextlib.contextmanager
def _opened(work: Path, parts: tuple[str, ...]) -> Iterator[int]:
    """The regular file or folder, reached part by part without following a link."""
    path = "/".join(parts)
    fd = -1
    try:
        fd = os.open(work, _FOLDER_FLAGS)
        for number, part in enumerate(parts, 1):
            flags = _FILE_FLAGS if number == len(parts) else _FOLDER_FLAGS
            above, fd = fd, os.open(part, flags, dir_fd=fd)
            os.close(above)
        if not stat.S_ISREG(mode := os.fstat(fd).st_mode) and not stat.S_ISDIR(mode):
            raise NoSuchFile(path, "is neither a file nor a folder")
        yield fd
    except FileNotFoundError:
        raise NoSuchFile(path, "does not exist") from None
    except OSError as error:
        words = _IN_THE_WAY.get(error.errno or 0, f"cannot be read: {error.strerror}")
        raise NoSuchFile(path, words) from None
    finally:
        if fd >= 0:
            os.close(fd)


def _is_text(name: str) -> bool:
    """A name that is no UTF-8 cannot be told on the wire, nor asked for."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _entry(path: str, status: os.stat_result) -> FileEntry:
    is_folder = stat.S_ISDIR(status.st_mode)
    size = 0 if is_folder else status.st_size
    return FileEntry(path, is_folder, size, int(status.st_mtime * 1000), stat.S_IMODE(status.st_mode))


def _unpack(work: Path, bundle: Path) -> None:
    try:
        with zipfile.ZipFile(bundle) as archive:
            members = archive.infolist()
            if len(members) > MAX_UNPACKED_FILES:
                raise UnsafeBundle(f"the bundle holds more than {MAX_UNPACKED_FILES} files")
            left = MAX_UNPACKED_BYTES
            for member in members:
                with _lasting(member.filename):
                    left -= _unpack_member(work, archive, member, left)
    except FileNotFoundError as error:
        raise UnsafeBundle("the bundle is gone from this cluster's disk") from error
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, zlib.error) as error:
        raise UnsafeBundle(f"the bundle is no readable zip file: {error}") from error


def _unpack_member(work: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, left: int) -> int:
    """Returns the bytes written; counted as they come, since a header may lie."""
    mode = member.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise UnsafeBundle(f"the bundle holds a link or device: {member.filename!r}")
    target = work.joinpath(*split_path(member.filename.rstrip("/")))
    if member.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        return 0
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with archive.open(member) as source, target.open("wb") as sink:
        while chunk := source.read(_COPY_BYTES):
            written += len(chunk)
            if written > left:
                raise UnsafeBundle(f"the bundle unpacks to more than {MAX_UNPACKED_BYTES} bytes")
            sink.write(chunk)
    target.chmod(0o755 if mode & 0o100 else 0o644)
    return written
