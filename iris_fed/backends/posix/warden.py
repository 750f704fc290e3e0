"""A fork of the launcher that holds one attempt's processes together where no cgroup can.

It is the nearest subreaper above them, so that whatever they do to their sessions, parents and
environments, they stay its descendants. Standard library only: it runs beside the tasks.
"""

import fcntl
import json
import os
import signal
import traceback
from collections.abc import Callable
from typing import NoReturn

from iris_fed.backends.posix import procfs
from iris_fed.backends.posix.children import ask_to_end, become_subreaper, reap
from iris_fed.backends.posix.spawn import StartError

TERMINATE = signal.SIGUSR1
FORCE = signal.SIGUSR2
HELD_SIGNALS = {signal.SIGCHLD, TERMINATE, FORCE}
"""Blocked before the fork, so that none is lost before the warden waits for them."""

_REPORT_FD = 3
_OUTPUT_FD = 4
_ROUND_S = 5.0


def guard(report_fd: int, output_fd: int, start: Callable[[int], int]) -> NoReturn:
    """The life of a warden, called in the forked child with HELD_SIGNALS blocked.

    Writes one JSON line to `report_fd` when the attempt's process started ("pid", "start", or
    "exit_code" and "message"), and one when all is over ("status" as of wait(2), "maxrss_bytes").
    """
    try:
        signal.set_wakeup_fd(-1)
        for number in HELD_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        become_subreaper()
        _keep_only(report_fd, output_fd)
        _report(_watch(start))
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(0)


def _keep_only(report_fd: int, output_fd: int) -> None:
    report = fcntl.fcntl(report_fd, fcntl.F_DUPFD_CLOEXEC, _OUTPUT_FD + 1)
    output = fcntl.fcntl(output_fd, fcntl.F_DUPFD_CLOEXEC, _OUTPUT_FD + 1)
    os.dup2(report, _REPORT_FD, inheritable=False)
    os.dup2(output, _OUTPUT_FD, inheritable=False)
    os.closerange(_OUTPUT_FD + 1, os.sysconf("SC_OPEN_MAX"))


def _watch(start: Callable[[int], int]) -> dict[str, object]:
    try:
        main = start(_OUTPUT_FD)
    except StartError as error:
        return {"exit_code": error.exit_code, "message": error.message}
    os.close(_OUTPUT_FD)
    stat = procfs.read_stat(main)
    _report({"pid": main, "start": 0 if stat is None else stat.start})
    status, maxrss_bytes = _wait_for(main)
    _sweep()
    return {"status": status, "maxrss_bytes": maxrss_bytes}


def _wait_for(main: int) -> tuple[int, int]:
    while True:
        number = signal.sigwaitinfo(HELD_SIGNALS).si_signo
        if number == TERMINATE:
            ask_to_end(main)
        elif number == FORCE:
            procfs.send([main], signal.SIGKILL)
        ended = reap().get(main)
        if ended is not None:
            return ended


def _sweep() -> None:
    while not procfs.kill_all(lambda: procfs.descendants(os.getpid()), reap, _ROUND_S):
        continue


def _report(line: dict[str, object]) -> None:
    os.write(_REPORT_FD, json.dumps(line).encode() + b"\n")
