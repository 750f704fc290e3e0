"""Start one program without a Python in between. Standard library only: the launcher's."""

import errno
import os
import signal
from collections.abc import Mapping, Sequence

NO_PROGRAM = 127
NOT_EXECUTABLE = 126
_TASK_UMASK = 0o022
_RESET_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


class StartError(Exception):
    """The program cannot be started. `exit_code` is what a shell would give: 126 or 127."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.message = message


def spawn(argv: Sequence[str], env: Mapping[str, str], output_fd: int) -> int:
    """Run `argv` in the current directory, in a session of its own; gives its pid.

    Input is empty, both outputs go to `output_fd`. Raises StartError.
    """
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output_fd, 1),
        (os.POSIX_SPAWN_DUP2, output_fd, 2),
    ]

    def start(path: str, words: list[str]) -> int:
        return os.posix_spawn(
            path, words, env, file_actions=actions, setsid=True, setsigmask=[], setsigdef=_RESET_SIGNALS
        )

    umask = os.umask(_TASK_UMASK)
    path = argv[0]
    try:
        path = find_program(argv[0], env.get("PATH", ""))
        try:
            return start(path, list(argv))
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            # A script without a #! line is the shell's, as for execvp(3).
            return start("/bin/sh", ["sh", path, *argv[1:]])
    except (OSError, ValueError) as error:
        raise _start_error(path, error) from error
    finally:
        os.umask(umask)


def find_program(name: str, search: str) -> str:
    """Where `name` is: itself when it holds a `/`, else found in `search`. Raises FileNotFoundError."""
    if "/" in name:
        return name
    denied = ""
    for folder in search.split(":"):
        path = os.path.join(folder or ".", name)
        if os.path.isfile(path):
            if os.access(path, os.X_OK):
                return path
            denied = denied or path
    if denied:
        return denied
    raise FileNotFoundError(errno.ENOENT, "not found in PATH")


def _start_error(path: str, error: OSError | ValueError) -> StartError:
    if isinstance(error, ValueError):
        return StartError(NOT_EXECUTABLE, f"could not be started: {path!r}: {error}")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        if os.path.exists(path):
            return StartError(NO_PROGRAM, f"could not be started: {path!r} names an interpreter that does not exist")
        where = "" if "/" in path else " in its PATH"
        return StartError(NO_PROGRAM, f"could not be started: no such program{where}: {path!r}")
    if error.errno == errno.EACCES:
        return StartError(NOT_EXECUTABLE, f"could not be started: {path!r} is not executable")
    return StartError(NOT_EXECUTABLE, f"could not be started: {path!r}: {error.strerror}")
