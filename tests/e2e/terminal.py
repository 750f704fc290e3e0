"""A command with a person before it: a real pseudo-terminal, which turns Ctrl+C into a signal."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

from tests.e2e.command import COMMAND, COMMAND_LIMIT_S

CTRL_C = b"\x03"
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
ON_ITS_TERMINAL = (sys.executable, "-S", "-c", _TAKE_TERMINAL)
"""Keys become signals only for the session that the terminal controls."""


class Terminal:
    """`shown` is all that the command has written."""

    def __init__(self, *arguments: str, env: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        self.process = subprocess.Popen(
            [*ON_ITS_TERMINAL, COMMAND, *arguments],
            env=env | {"TERM": "xterm"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.shown = ""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def until(self, text: str, limit_s: float = COMMAND_LIMIT_S) -> None:
        """Wait until the text was shown since the last call."""
        deadline = time.monotonic() + limit_s
        start = len(self.shown)
        while text not in self.shown[start:]:
            assert time.monotonic() < deadline, f"{text!r} was not shown, but {self.shown!r}"
            assert self._read(), f"it ended without {text!r}: {self.shown!r}"

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def end(self) -> int:
        """Its exit code, once all that it wrote was read."""
        while self._read():
            pass
        return self.process.wait(COMMAND_LIMIT_S)

    def _read(self) -> bool:
        """Take what is there; False at the end."""
        ready, _, _ = select.select([self._master], [], [], COMMAND_LIMIT_S)
        assert ready, f"nothing more was shown after {self.shown!r}"
        try:
            data = os.read(self._master, 65_536)
        except OSError:
            return False
        self.shown += data.decode("utf-8", "replace")
        return bool(data)
