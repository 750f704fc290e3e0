"""The process that starts attempts, keeps their output and learns how they end, whatever becomes of
the controller. `python -I -S launcher.py STATE_DIR [IDLE_S]`; one per state directory.

It speaks lines of JSON over a Unix socket (see `launcher_service`), prints `ready` once it
listens, and leaves when no attempt lives and no controller was connected for IDLE_S seconds.
Standard library only.
"""

import fcntl
import gc
import os
import sys

if __name__ == "__main__":
    # Run as a file, so that neither an installed package nor site-packages is needed.
    sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "..")))

from iris_fed.backends.local import names
from iris_fed.backends.local.launcher_service import Service
from iris_fed.backends.posix import files
from iris_fed.backends.posix.children import become_subreaper
from iris_fed.backends.posix.loop import Loop

DEFAULT_IDLE_S = 60.0
EXIT_LOCKED = 75


def main(state_dir: str, idle_s: float) -> int:
    """Gives the process's exit code: 0 when told or free to leave, 75 when another launcher lives."""
    os.umask(0o077)
    os.chdir(state_dir)
    os.makedirs(files.ATTEMPTS, exist_ok=True)
    lock = os.open(names.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return EXIT_LOCKED
    become_subreaper()
    service = Service(Loop(), idle_s)
    service.listen()
    _announce()
    gc.collect()
    gc.freeze()
    service.run()
    return 0


def _announce() -> None:
    """One word to whoever started us, then the pipe is let go."""
    os.write(1, b"ready\n")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.close(null)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else DEFAULT_IDLE_S))
