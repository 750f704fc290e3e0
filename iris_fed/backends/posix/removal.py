"""Removing what tasks left behind, whatever they did to it. Blocking; for threads."""

import contextlib
import os
from pathlib import Path


def empty(folder: Path, spared: str) -> None:
    """Remove all that a task left in `folder`, but for the file `spared` at its top.

    A task may nest directories deeper than any path may be long or a recursion go, and close its
    own: so each directory found is opened up and brought to the top before it is looked into.
    """
    os.chmod(folder, 0o700)
    waiting = [folder]
    number = 0
    while waiting:
        directory = waiting.pop()
        for entry in list(os.scandir(directory)):
            if entry.is_dir(follow_symlinks=False):
                number += 1
                target = folder / f".removing-{number}"
                _open_up(entry.path)
                while os.path.lexists(target):
                    number += 1
                    target = folder / f".removing-{number}"
                os.rename(entry.path, target)
                # Up here nobody but us replaces it any more; before, another task of its owner could.
                if target.is_symlink() or not target.is_dir():
                    os.unlink(target)
                else:
                    waiting.append(target)
            elif directory != folder or entry.name != spared:
                os.unlink(entry.path)
        if directory != folder:
            os.rmdir(directory)


def _open_up(directory: str) -> None:
    """Not through a link that took its place meanwhile."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.chmod(f"/proc/self/fd/{fd}", 0o700)
        finally:
            os.close(fd)
