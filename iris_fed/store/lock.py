"""One controller per state directory."""

import fcntl
import os
from pathlib import Path

from iris_fed.errors import ConfigError

LOCK_FILE = "controller.lock"


class StateLock:
    """Held while the file is open; the kernel lets go when the process dies, however it dies."""

    def __init__(self, state_dir: Path) -> None:
        """Raises ConfigError when another controller holds it."""
        self._file = os.open(state_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(self._file, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise ConfigError(
                f"the state directory {state_dir} is in use by another controller (process {owner}): "
                "stop that one, or set another state_dir"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def prepare_state_dir(state_dir: Path) -> None:
    """Make it, private to this user (0700). Raises ConfigError."""
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chmod(state_dir, 0o700)
    except OSError as error:
        raise ConfigError(f"cannot use the state directory {state_dir}: {error.strerror}") from error
