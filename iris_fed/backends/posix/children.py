"""Processes below this one: kept, asked to end, collected. Standard library only."""

import contextlib
import ctypes
import os
import signal

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Orphans below this process become its children. Raises OSError."""
    if _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def ask_to_end(main: int) -> None:
    """SIGTERM to the group of an attempt's process, waking it should it be stopped."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(main, signal.SIGTERM)
        os.killpg(main, signal.SIGCONT)


def reap() -> dict[int, tuple[int, int]]:
    """Collect dead children: by pid their wait status and peak resident bytes."""
    dead: dict[int, tuple[int, int]] = {}
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return dead
        if pid == 0:
            return dead
        dead[pid] = (status, usage.ru_maxrss * 1024)
