"""Holds a command together where no cgroup does: nothing that it starts outlives it, or us.

`python -I -S exec_guard.py PROGRAM ARGUMENT...` exits as the command did (128+n for a signal); SIGTERM
ends all at once. Its input is a JSON object: `env` of the command, `account` ([uid, gid, groups] to run
it as, or null). That environment is a task's, which nothing but the command may obey. Standard library only.
"""

import ctypes
import json
import os
import signal
import sys
from typing import Any

if __name__ == "__main__":
    # Run as a file, so that neither an installed package nor site-packages is needed.
    sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "..")))

from iris_fed.backends.posix import procfs
from iris_fed.backends.posix.children import become_subreaper, reap
from iris_fed.backends.posix.spawn import NO_PROGRAM, NOT_EXECUTABLE, RESET_SIGNALS, Account, fork_as

_PR_SET_PDEATHSIG = 1
_SIGNALS = {signal.SIGCHLD, signal.SIGTERM}
_ROUND_S = 5.0


def main(argv: list[str]) -> int:
    asked = json.load(sys.stdin)
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    become_subreaper()
    # Should the controller die, nobody waits for an answer any more.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        pid = _start(argv, asked["env"], asked["account"])
    except OSError as error:
        os.write(2, os.fsencode(f"{argv[0]}: {error.strerror}\n"))
        return NO_PROGRAM if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
    status = _wait_for(pid)
    while not procfs.kill_all(lambda: procfs.descendants(os.getpid()), reap, _ROUND_S):
        continue
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _start(argv: list[str], env: dict[str, str], account: list[Any] | None) -> int:
    """Raises OSError."""
    if account is not None:
        return fork_as(Account(*account), argv[0], argv, env, (1, 2))
    return os.posix_spawn(argv[0], argv, env, setsid=True, setsigmask=[], setsigdef=RESET_SIGNALS)


def _wait_for(pid: int) -> int:
    """The command's wait(2) status; that of a kill when we are told to end."""
    while signal.sigwaitinfo(_SIGNALS).si_signo != signal.SIGTERM:
        ended = reap().get(pid)
        if ended is not None:
            return ended[0]
    return signal.SIGKILL.value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
