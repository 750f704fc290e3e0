"""Lines of several tasks on one stream, in the order they come."""

import os
import sys
from typing import BinaryIO, TextIO

from iris_fed.cli import formats
from iris_fed.cli.terminal import say, strip_control_bytes
from iris_fed.rpc.gen.irisfed.cluster_pb2 import LogLine, ReadLogsResponse


def takes_sentences(out: TextIO) -> bool:
    """Whether what goes to stderr is read on `out` too: both a terminal, or one and the same pipe or file."""
    if out.isatty() and sys.stderr.isatty():
        return True
    try:
        return os.path.sameopenfile(out.fileno(), sys.stderr.fileno())
    except OSError:
        return False


class LogPrinter:
    """Writes output to `out`: stripped of terminal controls when `clean`, byte for byte otherwise.

    `prefixed` puts the task's index before each line. A line that comes in parts, or ends without a
    newline, is kept apart from another task's; from a sentence too where `shared` says that `out` has both.
    """

    def __init__(
        self, out: BinaryIO, *, clean: bool, prefixed: bool = False, timestamps: bool = False, shared: bool = False
    ) -> None:
        self._out = out
        self._clean = clean
        self._prefixed = prefixed
        self._timestamps = timestamps
        self._shared = shared
        self._unfinished = ""
        self.lines_shown = 0

    def show(self, response: ReadLogsResponse) -> None:
        for line in response.lines:
            self._show_line(line)
        self._out.flush()
        if response.notice:
            self.say(response.notice)

    def say(self, sentence: str) -> None:
        """Progress, to stderr, on a line of its own."""
        self.make_way()
        say(sentence)

    def make_way(self) -> None:
        """End an unfinished line where a sentence would be glued to it."""
        if self._unfinished and self._shared:
            self._end_line()
            self._out.flush()

    def finish(self) -> None:
        """End an unfinished line on a terminal, where a prompt would follow on it."""
        if self._unfinished and self._clean:
            self._end_line()
            self._out.flush()

    def _show_line(self, line: LogLine) -> None:
        self.lines_shown += 1
        if self._unfinished and (self._unfinished != line.task_id or line.dropped_bytes):
            self._end_line()
        if line.dropped_bytes:
            self._out.write(self._head(line) + f"[{line.dropped_bytes} bytes were dropped here]\n".encode())
        if not self._unfinished:
            self._out.write(self._head(line))
        self._out.write(strip_control_bytes(line.data) if self._clean else line.data)
        self._unfinished = "" if line.data.endswith(b"\n") else line.task_id

    def _head(self, line: LogLine) -> bytes:
        time = formats.clock_time(line.time_ms) + " " if self._timestamps else ""
        index = f"[{line.task_id.rpartition('/')[2]}] " if self._prefixed else ""
        return (time + index).encode()

    def _end_line(self) -> None:
        self._out.write(b"\n")
        self._unfinished = ""
