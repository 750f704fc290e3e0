"""The reading side of an attempt's output: pages of lines out of the segments of `logformat`."""

import bisect
import contextlib
import errno
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iris_fed.backends.base import LogLine, LogPage
from iris_fed.backends.posix.files import open_no_link
from iris_fed.backends.posix.logformat import TIME_RECORD, segment_name, segment_starts, times_name
from iris_fed.model.limits import MAX_EPOCH_MS

MAX_LINE_BYTES = 64 * 1024
"""A longer line comes in parts of this size."""

MAX_PAGE_BYTES = 4 * 1024 * 1024
MAX_PAGE_LINES = 2_000
"""Of short lines a page of bytes would hold so many that its reader waits for the first."""
MAX_TAIL_LINES = 1_000_000
_MAX_TAIL_SCAN_BYTES = 16 * 1024 * 1024
_SCAN_BLOCK_BYTES = 64 * 1024
_MAX_SEGMENT_BYTES = 2**62
"""A task may own the files: no size that it gives one makes an offset that the wire cannot tell."""
_TIMES_AT_ONCE = 4096
_MAX_TIMES_READ = 64
"""Blocks of `_TIMES_AT_ONCE` for one segment of one page: lines of a page have no more records than that."""
_NOT_OURS = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EACCES})


@dataclass(frozen=True, slots=True)
class Segment:
    """Offsets `[start, end)` of the output, as far as it was written when one looked."""

    folder: Path
    start: int
    end: int

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes at an offset of the whole output; fewer when the file went meanwhile."""
        with _opened(self.folder / segment_name(self.start)) as fd:
            return b"" if fd is None else os.pread(fd, min(size, self.end - offset), offset - self.start)


def segments(folder: Path) -> list[Segment]:
    """What is there now, in order; empty for an attempt without output."""
    found = []
    for start in segment_starts(str(folder)):
        with contextlib.suppress(FileNotFoundError):
            status = os.lstat(folder / segment_name(start))
            # What a task put in its place is no output.
            if stat.S_ISREG(status.st_mode) and status.st_size:
                found.append(Segment(folder, start, start + min(status.st_size, _MAX_SEGMENT_BYTES)))
    return found


def end_offset(folder: Path) -> int:
    present = segments(folder)
    return present[-1].end if present else 0


def read_log(folder: Path, offset: int, max_bytes: int, tail_lines: int, ended: bool) -> LogPage:
    """As `Backend.read_log` of a known attempt. Blocks."""
    return read_page(folder, tail_offset(folder, tail_lines) if tail_lines > 0 else offset, max_bytes, ended)


def read_page(folder: Path, offset: int, max_bytes: int, ended: bool) -> LogPage:
    """Lines from `offset` on, about `max_bytes` of them, at least one where there is any output.

    `ended`: the attempt had ended before the call, so that what is there is all there will be.
    """
    present = segments(folder)
    end = present[-1].end if present else 0
    at = min(max(offset, 0), end)
    budget = min(max(max_bytes, 1), MAX_PAGE_BYTES)
    lines: list[LogLine] = []
    for segment in present:
        if segment.end <= at or budget <= 0 or len(lines) >= MAX_PAGE_LINES:
            continue
        begin = max(at, segment.start)
        raw = segment.read(begin, budget)
        settled = ended or segment.end < end
        kept = raw if settled and begin + len(raw) == segment.end else whole_lines(raw, bool(lines))
        if not kept:
            break
        kept = _first_lines(kept, MAX_PAGE_LINES - len(lines))
        lines.extend(_timed(segment, begin, kept, begin - at))
        at = begin + len(kept)
        budget -= len(kept)
        if len(kept) < len(raw):
            break
    return LogPage(tuple(lines), at, ended and at >= end)


def _first_lines(data: bytes, most: int) -> bytes:
    at = 0
    for _ in range(most):
        newline = data.find(b"\n", at)
        if newline < 0:
            return data
        at = newline + 1
    return data[:at]


def tail_offset(folder: Path, tail_lines: int) -> int:
    """The offset at which the last `tail_lines` lines start (at most MAX_TAIL_LINES, and those of the last 16 MiB)."""
    wanted = min(tail_lines, MAX_TAIL_LINES)
    present = segments(folder)
    last = present[-1].end - 1 if present else 0
    scanned = 0
    for segment in reversed(present):
        at = segment.end
        while at > segment.start and scanned < _MAX_TAIL_SCAN_BYTES:
            begin = max(segment.start, at - _SCAN_BLOCK_BYTES)
            block = segment.read(begin, at - begin)
            scanned += len(block) or _SCAN_BLOCK_BYTES
            for position in _newlines_backwards(block):
                # The newline that ends the output starts no line.
                if begin + position == last:
                    continue
                wanted -= 1
                if wanted == 0:
                    return begin + position + 1
            at = begin
    return present[0].start if present and scanned < _MAX_TAIL_SCAN_BYTES else max(0, last + 1 - scanned)


def _newlines_backwards(block: bytes) -> Iterator[int]:
    position = block.rfind(b"\n")
    while position >= 0:
        yield position
        position = block.rfind(b"\n", 0, position)


def whole_lines(raw: bytes, has_some: bool) -> bytes:
    """A line that was cut, or still grows, waits for the next page unless there is nothing else to give."""
    cut = raw.rfind(b"\n") + 1
    return raw[:cut] if cut or has_some else raw


def _timed(segment: Segment, offset: int, data: bytes, dropped: int) -> Iterator[LogLine]:
    with _times(segment) as times:
        for line in split_lines(data):
            yield LogLine(offset, times.at(offset), line, dropped)
            offset += len(line)
            dropped = 0


def split_lines(data: bytes) -> Iterator[bytes]:
    """At newlines only, and every MAX_LINE_BYTES of a line that has none."""
    at = 0
    while at < len(data):
        newline = data.find(b"\n", at, at + MAX_LINE_BYTES)
        cut = newline + 1 if newline >= 0 else min(at + MAX_LINE_BYTES, len(data))
        yield data[at:cut]
        at = cut


class _Times:
    """A times file, searched where it lies: a task may own it, and cut it short while it is read."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        self._count = 0 if fd is None else os.fstat(fd).st_size // TIME_RECORD.size
        self._offsets: tuple[int, ...] = ()
        self._arrivals: tuple[int, ...] = ()
        self._is_last = False
        self._reads_left = _MAX_TIMES_READ

    def at(self, offset: int) -> int:
        """When the line that holds `offset` arrived, in epoch milliseconds; 0 = nobody knows."""
        if not self._holds(offset) and self._reads_left:
            self._reads_left -= 1
            self._read(offset)
        if not self._offsets:
            return 0
        found = bisect.bisect_right(self._offsets, offset)
        return min(self._arrivals[max(found - 1, 0)], MAX_EPOCH_MS)

    def _holds(self, offset: int) -> bool:
        return bool(self._offsets) and self._offsets[0] <= offset and (self._is_last or offset < self._offsets[-1])

    def _read(self, offset: int) -> None:
        """The block of records that begins with the one that holds `offset`."""
        first = max(bisect.bisect_right(range(self._count), offset, key=self._offset_of) - 1, 0)
        numbers = self._numbers(first, _TIMES_AT_ONCE)
        self._offsets, self._arrivals = numbers[::2], numbers[1::2]
        self._is_last = first + len(self._offsets) >= self._count

    def _offset_of(self, index: int) -> int:
        found = self._numbers(index, 1)
        return found[0] if found else _MAX_SEGMENT_BYTES

    def _numbers(self, first: int, count: int) -> tuple[int, ...]:
        if self._fd is None:
            return ()
        raw = os.pread(self._fd, count * TIME_RECORD.size, first * TIME_RECORD.size)
        whole = len(raw) // TIME_RECORD.size
        return struct.unpack_from(f"<{2 * whole}Q", raw)


@contextlib.contextmanager
def _times(segment: Segment) -> Iterator[_Times]:
    with _opened(segment.folder / times_name(segment.start)) as fd:
        yield _Times(fd)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    """For reading; None when it is gone, or not to be read because of what a task did to it."""
    try:
        fd = open_no_link(str(path), os.O_RDONLY)
    except OSError as error:
        if error.errno not in _NOT_OURS:
            raise
        yield None
        return
    try:
        yield fd if stat.S_ISREG(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)
