"""A directory as the zip archive that a job brings along.

The same files give the same bytes, whoever packs them and when: sorted names, one time, modes 644
and 755. What git would ignore stays behind (`.gitignore` files, nested ones too; not the user's own
global rules), and so does `.git`.
"""

import io
import os
import re
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from iris_fed.errors import InvalidArgument
from iris_fed.model.files import MAX_PATH_CHARS
from iris_fed.model.limits import Limits

MAX_BYTES = Limits().bundle_bytes
"""Of the archive, as a controller accepts it unless configured otherwise."""
MAX_FILES = 100_000
MAX_UNPACKED_BYTES = 4 * 1024**3
MAX_IGNORE_FILE_BYTES = 1024 * 1024
IGNORE_FILE = ".gitignore"
_NEVER = ".git"
_DRIVE = re.compile(r"[A-Za-z]:")
_FIRST_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_LEVEL = 6
_READ_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, or a folder that would be empty. `name` is relative to the workspace, `source` the real
    file, `size` in bytes."""

    name: str
    source: Path
    size: int = 0
    is_executable: bool = False
    is_folder: bool = False


@dataclass(frozen=True, slots=True)
class Survey:
    """What would be sent, by name."""

    directory: Path
    entries: tuple[Entry, ...]

    @property
    def file_count(self) -> int:
        return sum(not entry.is_folder for entry in self.entries)

    @property
    def total_bytes(self) -> int:
        """Before compression."""
        return sum(entry.size for entry in self.entries)


class _Refused(InvalidArgument):
    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the workspace's {name!r} {reason}; remove it or add it to {IGNORE_FILE}")


def survey(directory: str | os.PathLike[str]) -> Survey:
    """What `pack` would send. Links are followed where they stay inside.

    Raises InvalidArgument, naming the file: for a link that leaves the directory, leads nowhere or back
    to itself, a device, a name that is no UTF-8, or more than MAX_FILES files or MAX_UNPACKED_BYTES.
    """
    root = Path(directory)
    try:
        top = root.resolve(strict=True)
        if not top.is_dir():
            raise InvalidArgument(f"the workspace {str(root)!r} is no directory")
        entries = list(_Walk(top).entries())
    except OSError as error:
        raise InvalidArgument(f"the workspace's {error.filename!r} cannot be read: {error.strerror}") from error
    return Survey(root, tuple(sorted(entries, key=lambda entry: entry.name)))


def pack(directory: str | os.PathLike[str] | Survey, max_bytes: int = MAX_BYTES) -> bytes:
    """The archive, at most `max_bytes` of it.

    Raises InvalidArgument as `survey` does, and when it would be larger, with the largest files by name.
    """
    found = directory if isinstance(directory, Survey) else survey(directory)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        for entry in found.entries:
            try:
                _add(archive, entry, buffer, max_bytes, found)
            except OSError as error:
                raise _Refused(entry.name, f"cannot be read: {error.strerror}") from error
    if buffer.tell() > max_bytes:
        raise _too_large(found, max_bytes)
    return buffer.getvalue()


class _Walk:
    """Depth first below `top`, which is a real path."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._files = 0
        self._bytes = 0

    def entries(self) -> Iterator[Entry]:
        yield from self._folder(self._top, "", (), (self._top,))

    def _folder(
        self, folder: Path, prefix: str, rules: tuple[tuple[str, GitIgnoreSpec], ...], above: tuple[Path, ...]
    ) -> Iterator[Entry]:
        """`folder` is real; `prefix` is its name with a closing `/`; `rules` those of the folders above."""
        if (spec := _ignore_rules(folder)) is not None:
            rules = (*rules, (prefix, spec))
        empty = True
        for name in sorted(os.listdir(folder)):
            for entry in self._child(folder, name, prefix, rules, above):
                empty = False
                yield entry
        if empty and prefix:
            yield self._counted(Entry(prefix, folder, is_folder=True))

    def _child(
        self,
        folder: Path,
        name: str,
        prefix: str,
        rules: tuple[tuple[str, GitIgnoreSpec], ...],
        above: tuple[Path, ...],
    ) -> Iterator[Entry]:
        path, shown = folder / name, prefix + name
        mode = path.lstat().st_mode
        # To git a link is a file, whatever it leads to.
        if name == _NEVER or _is_ignored(shown + "/" * stat.S_ISDIR(mode), rules):
            return
        _check_name(shown)
        real = self._inside(path, shown) if stat.S_ISLNK(mode) else path
        status = real.stat()
        if stat.S_ISDIR(status.st_mode):
            if real in above:
                raise _Refused(shown, "is a link that leads back to where it lies")
            yield from self._folder(real, shown + "/", rules, (*above, real))
        elif stat.S_ISREG(status.st_mode):
            yield self._counted(Entry(shown, real, status.st_size, bool(status.st_mode & stat.S_IXUSR)))
        else:
            raise _Refused(shown, "is a device, a pipe or a socket")

    def _inside(self, link: Path, shown: str) -> Path:
        try:
            real = link.resolve(strict=True)
        except (OSError, RuntimeError):
            raise _Refused(shown, "is a link that leads nowhere") from None
        if not real.is_relative_to(self._top) or _NEVER in real.relative_to(self._top).parts:
            raise _Refused(shown, "is a link that leaves the directory")
        return real

    def _counted(self, entry: Entry) -> Entry:
        self._files += 1
        self._bytes += entry.size
        if self._files > MAX_FILES:
            raise InvalidArgument(f"the workspace {self._top} holds more than {MAX_FILES} files")
        if self._bytes > MAX_UNPACKED_BYTES:
            raise InvalidArgument(f"the workspace {self._top} holds more than {MAX_UNPACKED_BYTES} bytes")
        return entry


def _ignore_rules(folder: Path) -> GitIgnoreSpec | None:
    path = folder / IGNORE_FILE
    if path.is_symlink() or not path.is_file():
        return None
    with path.open("rb") as file:
        text = file.read(MAX_IGNORE_FILE_BYTES + 1)
    if len(text) > MAX_IGNORE_FILE_BYTES:
        raise InvalidArgument(f"{path} has more than {MAX_IGNORE_FILE_BYTES} bytes")
    try:
        return GitIgnoreSpec.from_lines(os.fsdecode(text).splitlines())
    except ValueError as error:
        raise InvalidArgument(f"{path} holds a pattern that cannot be read: {error}") from error


def _is_ignored(name: str, rules: tuple[tuple[str, GitIgnoreSpec], ...]) -> bool:
    """The deepest file with a rule for it decides, as git has it. `name` of a folder ends with `/`."""
    for prefix, spec in reversed(rules):
        verdict = spec.check_file(name[len(prefix) :]).include
        if verdict is not None:
            return verdict
    return False


def _check_name(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise _Refused(name, "has a name that is no UTF-8") from None
    if "\\" in name or _DRIVE.match(name):
        raise _Refused(name, "has a name that another system reads as a path")
    if len(name) > MAX_PATH_CHARS:
        raise _Refused(name[:80], f"has a path of more than {MAX_PATH_CHARS} characters")


def _add(archive: zipfile.ZipFile, entry: Entry, buffer: io.BytesIO, max_bytes: int, found: Survey) -> None:
    info = zipfile.ZipInfo(entry.name, _FIRST_ZIP_TIME)
    info.create_system = _UNIX
    if entry.is_folder:
        info.external_attr = (stat.S_IFDIR | 0o755) << 16
        archive.writestr(info, b"")
        return
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = (stat.S_IFREG | (0o755 if entry.is_executable else 0o644)) << 16
    info.file_size = entry.size
    with entry.source.open("rb") as source, archive.open(info, "w") as sink:
        left = MAX_UNPACKED_BYTES
        while chunk := source.read(min(_READ_BYTES, left)):
            sink.write(chunk)
            left -= len(chunk)
            if buffer.tell() > max_bytes:
                raise _too_large(found, max_bytes)


def _too_large(found: Survey, max_bytes: int) -> InvalidArgument:
    largest = sorted(found.entries, key=lambda entry: -entry.size)[:3]
    shown = ", ".join(f"{entry.name} ({entry.size} bytes)" for entry in largest)
    return InvalidArgument(
        f"the workspace {found.directory} is more than {max_bytes} bytes when packed; add what the job does "
        f"not need to {IGNORE_FILE}. Largest: {shown}"
    )
