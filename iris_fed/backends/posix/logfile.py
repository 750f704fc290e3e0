"""The reading side of an attempt's output: pages of lines out of the segments of `logformat`."""

import bisect
import contextlib
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iris_fed.backends.base import LogLine, LogPage
from iris_fed.backends.posix.files import open_no_link
from iris_fed.backends.posix.logformat import TIME_RECORD, segment_name, segment_starts, times_name

MAX_LINE_BYTES = 64 * 1024
"""A longer line comes in parts of this size."""

MAX_PAGE_BYTES = 4 * 1024 * 1024
MAX_TAIL_LINES = 10_000
_MAX_TAIL_SCAN_BYTES = 16 * 1024 * 1024
_SCAN_BLOCK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Segment:
    """Offsets `[start, end)` of the output, as far as it was written when one looked."""

    folder: Path
    start: int
    end: int

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes at an offset of the whole output; fewer when the file went meanwhile."""
        try:
            with open(self.folder / segment_name(self.start), "rb", opener=open_no_link) as stream:
                stream.seek(offset - self.start)
                return stream.read(min(size, self.end - offset))
        except FileNotFoundError:
            return b""


def segments(folder: Path) -> list[Segment]:
    """What is there now, in order; empty for an attempt without output."""
    found = []
    for start in segment_starts(str(folder)):
        with contextlib.suppress(FileNotFoundError):
            size = os.lstat(folder / segment_name(start)).st_size
            if size:
                found.append(Segment(folder, start, start + size))
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
        if segment.end <= at or budget <= 0:
            continue
        begin = max(at, segment.start)
        raw = segment.read(begin, budget)
        settled = ended or segment.end < end
        kept = raw if settled and begin + len(raw) == segment.end else whole_lines(raw, bool(lines))
        if not kept:
            break
        lines.extend(_timed(segment, begin, kept, begin - at))
        at = begin + len(kept)
        budget -= len(kept)
        if len(kept) < len(raw):
            break
    return LogPage(tuple(lines), at, ended and at >= end)


def tail_offset(folder: Path, tail_lines: int) -> int:
    """The offset at which the last `tail_lines` lines start (at most MAX_TAIL_LINES)."""
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
    """A times file, searched where it lies."""

    def __init__(self, records: memoryview) -> None:
        self._records = records

    def at(self, offset: int) -> int:
        """When the line that holds `offset` arrived, in epoch milliseconds."""
        count = len(self._records) // 2
        found = bisect.bisect_right(range(count), offset, key=lambda index: self._records[2 * index])
        return int(self._records[2 * max(found - 1, 0) + 1]) if count else 0


@contextlib.contextmanager
def _times(segment: Segment) -> Iterator[_Times]:
    try:
        with contextlib.ExitStack() as stack:
            stream = stack.enter_context(open(segment.folder / times_name(segment.start), "rb", opener=open_no_link))
            size = os.fstat(stream.fileno()).st_size // TIME_RECORD.size * TIME_RECORD.size
            if size == 0:
                yield _Times(memoryview(b"").cast("Q"))
                return
            mapped = stack.enter_context(mmap.mmap(stream.fileno(), size, prot=mmap.PROT_READ))
            raw = stack.enter_context(memoryview(mapped))
            yield _Times(stack.enter_context(raw.cast("Q")))
    except FileNotFoundError:
        yield _Times(memoryview(b"").cast("Q"))
