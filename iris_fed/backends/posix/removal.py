"""Removing what tasks left behind, whatever they did to it. Blocking; for threads.

A directory that belongs to a task's account may change under our hands: each is taken back first, and then
used by its descriptor alone, never by its path again. In one that is ours nobody else puts a link.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path


def empty(folder: Path, spared: str = "") -> None:
    """Remove all that a task left in `folder`, but for the file `spared` at its top; it becomes ours.

    A task may nest directories deeper than any path may be long or a recursion go, and close its
    own: so each directory found is opened up and brought to the top before it is looked into.
    Raises OSError, also when `folder` is no directory. What lies above `folder` must be ours.
    """
    with _taken_back(str(folder), None) as top:
        if top is None:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        names = _Names(top)
        waiting = _lift(top, top, names, spared)
        while waiting:
            name = waiting.pop()
            with _taken_back(name, top) as directory:
                if directory is not None:
                    waiting += _lift(directory, top, names, "")
            if directory is None:
                os.unlink(name, dir_fd=top)
            else:
                os.rmdir(name, dir_fd=top)


def remove(folder: Path) -> None:
    """`folder` and all that is in it; nothing when it is not there. Raises OSError, as `empty` does."""
    if os.path.lexists(folder):
        empty(folder)
        os.rmdir(folder)


class _Names:
    """Unused ones at the top."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._number = 0

    def next(self) -> str:
        while True:
            self._number += 1
            name = f".removing-{self._number}"
            try:
                os.stat(name, dir_fd=self._top, follow_symlinks=False)
            except FileNotFoundError:
                return name


def _lift(directory: int, top: int, names: _Names, spared: str) -> list[str]:
    """Remove its files and bring its directories to the top; their names there."""
    lifted = []
    with os.scandir(directory) as found:
        entries = list(found)
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            if entry.name != spared:
                os.unlink(entry.name, dir_fd=directory)
            continue
        # Only its owner may move a directory that it has closed.
        with _taken_back(entry.name, directory):
            name = names.next()
            os.rename(entry.name, name, src_dir_fd=directory, dst_dir_fd=top)
            lifted.append(name)
    return lifted


@contextlib.contextmanager
def _taken_back(name: str, above: int | None) -> Iterator[int | None]:
    """The directory, open, from now on ours alone; None = it is none (any more)."""
    path_fd = fd = -1
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path_fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        if path_fd < 0:
            yield None
            return
        # What is open by O_PATH can be closed to us, and is changed and opened through this name of it.
        itself = f"/proc/self/fd/{path_fd}"
        if os.fstat(path_fd).st_uid != os.geteuid() and os.geteuid() == 0:
            os.chown(itself, 0, os.getegid())
        if stat.S_IMODE(os.fstat(path_fd).st_mode) != 0o700:
            os.chmod(itself, 0o700)
        fd = os.open(itself, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        yield fd
    finally:
        for opened in (fd, path_fd):
            if opened >= 0:
                os.close(opened)
