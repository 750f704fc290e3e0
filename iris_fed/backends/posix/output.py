"""The writing side of an attempt's output: bounded, timed, offsets that never shift.

Standard library only: it runs beside the tasks. The format is that of `logformat`.
"""

import contextlib
import os

from iris_fed.backends.posix.logformat import (
    BYTES_PER_TIME_RECORD,
    TAIL_SEGMENTS,
    TIME_RECORD,
    segment_name,
    times_name,
)

_MIN_SEGMENT_BYTES = 4096


class OutputWriter:
    """Appends to the segments in `folder`, at most about `limit_bytes` of them.

    A full disk loses output, never an attempt: what could not be written counts as dropped.
    """

    def __init__(self, folder: str, limit_bytes: int) -> None:
        self._folder = folder
        self._head_bytes = max(_MIN_SEGMENT_BYTES, limit_bytes // 2)
        self._tail_bytes = max(_MIN_SEGMENT_BYTES, self._head_bytes // TAIL_SEGMENTS)
        self._tails: list[int] = []
        self._data_fd = -1
        self._times_fd = -1
        self._room = 0
        self._times_room = 0
        self._last_ms = -1
        self._at_line_start = True
        self._has_head = False
        self.end = 0

    def write(self, data: bytes, now_ms: int) -> None:
        """Append what arrived at `now_ms` (epoch milliseconds)."""
        view = memoryview(data)
        while view:
            is_full = self._data_fd < 0 or self._room == 0 or self._times_room == 0
            if is_full and not self._open_segment(now_ms):
                self._lose(bytes(view))
                return
            written = self._append(bytes(view[: self._room]), now_ms)
            view = view[written:]
            if written == 0:
                self._lose(bytes(view))
                return

    def close(self) -> None:
        for fd in (self._data_fd, self._times_fd):
            if fd >= 0:
                os.close(fd)
        self._data_fd = self._times_fd = -1

    def _open_segment(self, now_ms: int) -> bool:
        self.close()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        size = self._tail_bytes if self._has_head else self._head_bytes
        try:
            self._times_fd = os.open(os.path.join(self._folder, times_name(self.end)), flags, 0o600)
            os.write(self._times_fd, TIME_RECORD.pack(self.end, now_ms))
            self._data_fd = os.open(os.path.join(self._folder, segment_name(self.end)), flags, 0o600)
        except OSError:
            self.close()
            return False
        if self._has_head:
            self._tails.append(self.end)
            self._drop_oldest()
        self._has_head = True
        self._room = size
        self._times_room = size // BYTES_PER_TIME_RECORD
        self._last_ms = now_ms
        return True

    def _drop_oldest(self) -> None:
        while len(self._tails) > TAIL_SEGMENTS:
            start = self._tails.pop(0)
            for name in (segment_name(start), times_name(start)):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self._folder, name))

    def _append(self, part: bytes, now_ms: int) -> int:
        """Bytes written, 0 when the disk takes none. The time goes first, so that whoever reads the
        bytes finds it."""
        line = 0 if self._at_line_start else part.find(b"\n") + 1
        starts_line = self._at_line_start or 0 < line < len(part)
        try:
            if starts_line and now_ms != self._last_ms:
                os.write(self._times_fd, TIME_RECORD.pack(self.end + line, now_ms))
                self._times_room -= 1
                self._last_ms = now_ms
            written = os.write(self._data_fd, part)
        except OSError:
            return 0
        self.end += written
        self._room -= written
        self._at_line_start = part[written - 1 : written] == b"\n"
        return written

    def _lose(self, data: bytes) -> None:
        """Count what could not be written; the next segment starts after the gap."""
        self._at_line_start = data.endswith(b"\n")
        self.end += len(data)
        self.close()
