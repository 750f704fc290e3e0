"""Holds a command together where no cgroup does: nothing that it starts outlives it, or us.

`python -I -S exec_guard.py PROGRAM ARGUMENT...` exits as the command did (128+n for a signal); SIGTERM
ends all at once. Standard library only.
"""

import ctypes
import os
import signal
import sys

if __name__ == "__main__":
    # Run as a file, so that neither an installed package nor site-packages is needed.
    sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "..")))

from iris_fed.backends.local import procfs
from iris_fed.backends.local.spawn import NO_PROGRAM, NOT_EXECUTABLE
from iris_fed.backends.local.warden import become_subreaper, reap

_PR_SET_PDEATHSIG = 1
_SIGNALS = {signal.SIGCHLD, signal.SIGTERM}
_ROUND_S = 5.0


def main(argv: list[str]) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    become_subreaper()
    # Should the controller die, nobody waits for an answer any more.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    defaults = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
    try:
        pid = os.posix_spawn(argv[0], argv, os.environ, setsid=True, setsigmask=[], setsigdef=defaults)
    except OSError as error:
        os.write(2, os.fsencode(f"{argv[0]}: {error.strerror}\n"))
        return NO_PROGRAM if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
    status = _wait_for(pid)
    while not procfs.kill_all(lambda: procfs.descendants(os.getpid()), reap, _ROUND_S):
        continue
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _wait_for(pid: int) -> int:
    """The command's wait(2) status; that of a kill when we are told to end."""
    while signal.sigwaitinfo(_SIGNALS).si_signo != signal.SIGTERM:
        ended = reap().get(pid)
        if ended is not None:
            return ended[0]
    return signal.SIGKILL.value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
