"""Leaving no process behind: controllers and launchers that name the demo's directory, and all their tasks.

Run as a program it is the demo's guardian: it does the same once its standard input ends, so that
even a demo that was killed leaves nothing.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

ASKED_FOR_S = 15.0
"""After SIGTERM: a launcher ends the tasks in its care before it goes."""
FORCED_FOR_S = 5.0
POLL_S = 0.05
_GUARDIAN = "iris_fed.cli.demo.sweep"


def processes_of(directory: Path) -> list[psutil.Process]:
    """Live processes of the demo in `directory`: ours that name it, tasks whose work directory is in
    it, and all that these have started. Never this process or the guardian."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        try:
            if _belongs(process, directory):
                found |= {one.pid: one for one in (process, *process.children(recursive=True))}
        except (psutil.Error, OSError):
            continue
    return [process for process in found.values() if process.pid != os.getpid() and _is_alive(process)]


def sweep(directory: Path) -> list[int]:
    """End them: SIGTERM to controllers, then to launchers, SIGKILL to all that is left. Returns who survived."""
    asked: set[int] = set()
    deadline = time.monotonic() + ASKED_FOR_S
    while (ours := [one for one in processes_of(directory) if _runs_our_code(one)]) and time.monotonic() < deadline:
        # A controller would replace a launcher that goes before it.
        for process in [one for one in ours if not _is_launcher(one)] or ours:
            if process.pid not in asked:
                asked.add(process.pid)
                _quietly(psutil.Process.terminate, process)
        time.sleep(POLL_S)
    deadline = time.monotonic() + FORCED_FOR_S
    while (remaining := processes_of(directory)) and time.monotonic() < deadline:
        for process in remaining:
            _quietly(psutil.Process.kill, process)
        time.sleep(POLL_S)
    return [process.pid for process in remaining]


def guard(directory: Path) -> None:
    """Wait for the end of standard input, then sweep and remove the directory."""
    while os.read(0, 4096):
        pass
    sweep(directory)
    shutil.rmtree(directory, ignore_errors=True)


def _quietly(end: Callable[[psutil.Process], None], process: psutil.Process) -> None:
    try:
        end(process)
    except psutil.Error:
        return


def _runs_our_code(process: psutil.Process) -> bool:
    return _is_ours(_words(process))


def _is_launcher(process: psutil.Process) -> bool:
    return any(word.endswith("launcher.py") for word in _words(process))


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _belongs(process: psutil.Process, directory: Path) -> bool:
    words = process.cmdline()
    if _GUARDIAN in words:
        return False
    if _is_ours(words) and any(_is_in(word, directory) for word in words):
        return True
    return _is_in(process.environ().get("IRIS_WORKDIR", ""), directory)


def _is_ours(words: list[str]) -> bool:
    """A controller or a launcher, however Python was told to run it."""
    return any("iris_fed" in word for word in words[1:])


def _is_in(path: str, directory: Path) -> bool:
    return path == str(directory) or path.startswith(f"{directory}/")


if __name__ == "__main__":
    guard(Path(sys.argv[1]))
