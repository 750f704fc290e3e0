"""The command as a process of its own, and waiting for what it does."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

COMMAND = str(Path(sys.executable).with_name("iris-fed"))
COMMAND_LIMIT_S = 80.0
LINE_LIMIT_S = 60.0
POLL_S = 0.03
AT_ONCE = 4

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command left behind."""

    code: int
    out: str
    err: str


def clean_environment(**more: str) -> dict[str, str]:
    """Of somebody who has configured nothing; `more` on top."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("IRIS_", "XDG_"))}
    return kept | {"HOME": "/nonexistent", "COLUMNS": "200"} | more


def iris_fed(*arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None, text: str = "") -> Ended:
    """Run the command to its end, with `text` on its standard input."""
    done = subprocess.run(
        [COMMAND, *arguments],
        env=clean_environment() if env is None else env,
        cwd=cwd,
        input=text.encode(),
        capture_output=True,
        timeout=COMMAND_LIMIT_S,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode())


def all_at_once(calls: Iterable[Callable[[], T]]) -> list[T]:
    """What the calls give, in their order; a few at a time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def poll(look: Callable[[], T | None], what: str, limit_s: float = 45.0) -> T:
    """What `look` finds, once it is true."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(POLL_S)
    raise AssertionError(f"not within {limit_s:g} s: {what}")


class Running:
    """A command under way. Its output goes to pipes that are read when it has ended, or by line."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        # Unbuffered, so that what `line` has not taken is still in the pipe for `end`.
        self.process = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def line(self) -> str:
        """The next line of its standard output; "" at the end."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], LINE_LIMIT_S)[0]:
            self.process.kill()
            raise AssertionError(f"no line came within {LINE_LIMIT_S:g} s: {self.end()}")
        return self.process.stdout.readline().decode()

    def until(self, text: str) -> str:
        """The next line of its standard output that holds the text."""
        while line := self.line():
            if text in line:
                return line
        raise AssertionError(f"it ended without {text!r}: {self.end()}")

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> None:
        self.process.send_signal(number)

    def end(self) -> Ended:
        out, err = self.process.communicate(timeout=COMMAND_LIMIT_S)
        return Ended(self.process.returncode, out.decode("utf-8", "surrogateescape"), err.decode())
