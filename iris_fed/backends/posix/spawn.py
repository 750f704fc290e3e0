"""Start one program without a Python in between. Standard library only: it runs beside the tasks."""

import errno
import os
import signal
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

NO_PROGRAM = 127
NOT_EXECUTABLE = 126
_TASK_UMASK = 0o022
RESET_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


class Account(NamedTuple):
    """Under whose numbers a program runs; `groups` are all of its groups."""

    uid: int
    gid: int
    groups: Sequence[int]


class StartError(Exception):
    """The program cannot be started. `exit_code` is what a shell would give: 126 or 127."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.message = message


def spawn(argv: Sequence[str], env: Mapping[str, str], output_fd: int, account: Account | None = None) -> int:
    """Run `argv` in the current directory, in a session of its own; gives its pid.

    Input is empty, both outputs go to `output_fd`. `account` None = as we are. Raises StartError.
    """
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output_fd, 1),
        (os.POSIX_SPAWN_DUP2, output_fd, 2),
    ]

    def start(path: str, words: list[str]) -> int:
        if account is not None:
            return fork_as(account, path, words, env, (output_fd, output_fd))
        return os.posix_spawn(
            path, words, env, file_actions=actions, setsid=True, setsigmask=[], setsigdef=RESET_SIGNALS
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


def fork_as(account: Account, path: str, words: list[str], env: Mapping[str, str], output_fds: tuple[int, int]) -> int:
    """As posix_spawn(3), which cannot change the user: in a session of its own, with empty input. No program
    stands in between: it would obey the task's environment (LD_PRELOAD) while it is still root. Raises
    OSError."""
    failure, report = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become(account, path, words, env, output_fds, report)
    os.close(report)
    try:
        told = os.read(failure, 16)
    finally:
        os.close(failure)
    if told:
        os.waitpid(pid, 0)
        raise OSError(int(told), os.strerror(int(told)))
    return pid


def _become(
    account: Account, path: str, words: list[str], env: Mapping[str, str], output_fds: tuple[int, int], report: int
) -> NoReturn:
    """The rest of a forked child's life. It ends, whatever happens, without going back to our code."""
    number = errno.EINVAL
    try:
        os.setsid()
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(output_fds[0], 1)
        os.dup2(output_fds[1], 2)
        for name in RESET_SIGNALS:
            signal.signal(name, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.setgroups(account.groups)
        os.setresgid(account.gid, account.gid, account.gid)
        os.setresuid(account.uid, account.uid, account.uid)
        os.execve(path, words, env)
    except OSError as error:
        number = error.errno or number
    finally:
        os.write(report, str(number).encode())
        os._exit(NO_PROGRAM)


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
