"""Giving an attempt's place to the account that its task runs as. Blocking; for threads."""

import contextlib
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from iris_fed.backends.posix import files
from iris_fed.backends.posix.spawn import Account


def write_secrets(folder: Path, secrets: Mapping[str, str]) -> None:
    """Into the attempt's folder, readable by this user alone, from their first byte on. Raises OSError."""
    place = folder / files.SECRETS
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in secrets.items():
        (place / name).unlink(missing_ok=True)
        fd = os.open(place / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as stream:
            stream.write(text.encode())


def close_place(folder: Path) -> None:
    """Nobody else may enter it, and what lies there from an earlier try goes. Raises OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)
    for name in (files.WORK, files.SECRETS):
        if (folder / name).exists():
            shutil.rmtree(folder / name)


def hand_over(tops: Iterable[Path], account: Account) -> None:
    """All of these, in a place that was closed so far, become the account's: nobody can put a link in the way.
    The first is a directory, made when absent. Raises OSError."""
    work, *others = tops
    work.mkdir(mode=0o700, exist_ok=True)
    work.chmod(0o700)
    for top in (work, *others):
        for directory, folders, names in os.walk(top):
            for name in (*folders, *names):
                os.chown(os.path.join(directory, name), account.uid, account.gid, follow_symlinks=False)
        with contextlib.suppress(FileNotFoundError):
            os.chown(top, account.uid, account.gid, follow_symlinks=False)
