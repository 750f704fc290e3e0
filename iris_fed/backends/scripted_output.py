"""An attempt's output in memory, bounded as on disk: the first half stays, then the latest."""

import bisect

from iris_fed.backends.base import LogLine, LogPage
from iris_fed.backends.posix.logfile import MAX_PAGE_BYTES, split_lines, whole_lines


class ScriptedOutput:
    def __init__(self, limit_bytes: int) -> None:
        self._half = max(1, limit_bytes // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._times: list[tuple[int, int]] = []
        self.end = 0

    def write(self, data: bytes, now_ms: int) -> None:
        self._times.append((self.end, now_ms))
        self.end += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        del self._tail[: -self._half]

    def page(self, offset: int, max_bytes: int, ended: bool) -> LogPage:
        at = min(max(offset, 0), self.end)
        lines = self._lines(at, min(max(max_bytes, 1), MAX_PAGE_BYTES), ended)
        if lines:
            at = lines[-1].offset + len(lines[-1].data)
        return LogPage(tuple(lines), at, ended and at >= self.end)

    def tail_offset(self, tail_lines: int) -> int:
        starts = [line.offset for line in self._lines(0, self.end, True)]
        return starts[-tail_lines] if len(starts) >= tail_lines else 0

    def _lines(self, at: int, budget: int, ended: bool) -> list[LogLine]:
        lines: list[LogLine] = []
        for start, stored in ((0, self._head), (self.end - len(self._tail), self._tail)):
            end = start + len(stored)
            if end <= at or budget <= 0:
                continue
            dropped, at = max(0, start - at), max(start, at)
            raw = bytes(stored[at - start :][:budget])
            settled = at + len(raw) == end and (ended or end < self.end)
            kept = raw if settled else whole_lines(raw, bool(lines))
            for data in split_lines(kept):
                lines.append(LogLine(at, self._time(at), data, dropped))
                at, dropped = at + len(data), 0
            budget -= len(raw)
            if len(kept) < len(raw):
                break
        return lines

    def _time(self, offset: int) -> int:
        """Of the write that holds `offset`."""
        return self._times[bisect.bisect_right(self._times, offset, key=lambda written: written[0]) - 1][1]
