"""An attempt's output on disk: what the launcher writes is what the backend reads."""

import bisect
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iris_fed.backends.base import LogLine
from iris_fed.backends.posix import logfile, logformat
from iris_fed.backends.posix.output import OutputWriter
from iris_fed.model.limits import MAX_EPOCH_MS

LIMIT = 64 * 1024


def lines_of(folder: Path, ended: bool = True, max_bytes: int = 1 << 20) -> list[LogLine]:
    lines: list[LogLine] = []
    offset = 0
    while (page := logfile.read_page(folder, offset, max_bytes, ended)).lines:
        lines.extend(page.lines)
        offset = page.next_offset
    return lines


def test_each_line_has_the_time_of_its_first_byte(tmp_path: Path) -> None:
    writer = OutputWriter(str(tmp_path), LIMIT)
    for now_ms, data in ((10, b"one\ntw"), (20, b"o\nthree\n"), (30, b"four\n")):
        writer.write(data, now_ms)
    times = {line.data: line.time_ms for line in lines_of(tmp_path)}
    assert times == {b"one\n": 10, b"two\n": 10, b"three\n": 20, b"four\n": 30}
    writer.close()


def test_a_line_that_still_grows_waits_for_its_end_while_there_is_more_to_give(tmp_path: Path) -> None:
    writer = OutputWriter(str(tmp_path), LIMIT)
    writer.write(b"whole\nhal", 10)
    page = logfile.read_page(tmp_path, 0, 1000, ended=False)
    assert [line.data for line in page.lines] == [b"whole\n"]
    assert [line.data for line in logfile.read_page(tmp_path, 6, 1000, ended=False).lines] == [b"hal"]
    writer.close()


def test_one_file_holds_output_within_half_of_the_limit(tmp_path: Path) -> None:
    writer = OutputWriter(str(tmp_path), LIMIT)
    writer.write(b"x" * (LIMIT // 2), 10)
    assert logformat.segment_starts(str(tmp_path)) == [0]
    writer.close()


def test_what_lies_on_disk_is_bounded_whatever_is_written(tmp_path: Path) -> None:
    writer = OutputWriter(str(tmp_path), LIMIT)
    for now_ms in range(40 * LIMIT // 40):
        writer.write(b"\n" * 40, now_ms)
    size = sum(entry.stat().st_size for entry in os.scandir(tmp_path))
    assert size <= LIMIT * 1.5
    assert lines_of(tmp_path)[-1].offset == 40 * (40 * LIMIT // 40) - 1
    writer.close()


def test_output_that_a_full_disk_refused_counts_as_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = OutputWriter(str(tmp_path / "state"), LIMIT)
    writer.write(b"lost\n", 10)
    (tmp_path / "state").mkdir()
    writer.write(b"kept\n", 20)
    writer.close()
    assert lines_of(tmp_path / "state") == [LogLine(5, 20, b"kept\n", dropped_bytes=5)]


def test_reading_from_within_the_gap_goes_on_behind_it(tmp_path: Path) -> None:
    writer = OutputWriter(str(tmp_path), LIMIT)
    writer.write(b"0123456\n" * LIMIT, 10)
    writer.close()
    head, first_tail = logformat.segment_starts(str(tmp_path))[:2]
    assert head == 0
    asked = first_tail - 100
    line = logfile.read_page(tmp_path, asked, 1000, ended=True).lines[0]
    assert (line.offset, line.dropped_bytes) == (first_tail, 100)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    chunks=st.lists(st.one_of(st.binary(max_size=300), st.sampled_from([b"\n", b"a\nb\n", b"y" * 9000])), max_size=40),
    max_bytes=st.integers(300, 5000),
)
def test_pages_joined_are_the_output_but_for_what_they_say_was_dropped(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes], max_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("output")
    writer = OutputWriter(str(folder), 32 * 1024)
    for now_ms, chunk in enumerate(chunks):
        writer.write(chunk, now_ms)
    writer.close()
    said = b"".join(chunks)
    lines = lines_of(folder, max_bytes=max_bytes)
    at = 0
    for line in lines:
        assert line.offset == at + line.dropped_bytes
        assert said[line.offset : line.offset + len(line.data)] == line.data
        assert line.data.find(b"\n") in (-1, len(line.data) - 1)
        at = line.offset + len(line.data)
    assert at == len(said)
    assert logfile.end_offset(folder) == len(said)


def test_each_of_very_many_lines_has_its_time(tmp_path: Path) -> None:
    writer = OutputWriter(str(tmp_path), 4 << 20)
    for now_ms in range(1, 10_001):
        writer.write(b"%063d\n" % now_ms, now_ms)
    writer.close()
    lines = lines_of(tmp_path)
    assert [line.time_ms for line in lines] == list(range(1, 10_001))
    assert [line.time_ms for line in logfile.read_page(tmp_path, 64 * 9_000, 64, ended=True).lines] == [9_001]


def test_a_times_file_that_its_task_cuts_short_while_it_is_read_is_no_more_than_times_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = OutputWriter(str(tmp_path), 4 << 20)
    for now_ms in range(1, 10_001):
        writer.write(b"%063d\n" % now_ms, now_ms)
    writer.close()
    search = bisect.bisect_right

    def cut_short(*words: Any, **named: Any) -> int:
        os.truncate(tmp_path / logformat.times_name(0), 0)
        return search(*words, **named)

    monkeypatch.setattr(bisect, "bisect_right", cut_short)
    lines = lines_of(tmp_path)
    assert {line.time_ms for line in lines} == {0}
    assert len(lines) == 10_000


def test_times_that_a_task_invented_are_times_that_can_be_told(tmp_path: Path) -> None:
    (tmp_path / "output.0").write_bytes(b"a\n" * 20_000)
    (tmp_path / "output.0.times").write_bytes(b"\xff" * 16 * 20_000)
    assert {line.time_ms for line in lines_of(tmp_path)} == {MAX_EPOCH_MS}
    (tmp_path / f"output.{10**30}").write_bytes(b"far\n")
    assert logfile.end_offset(tmp_path) == 40_000


def test_what_a_task_put_in_the_place_of_its_output_is_no_output(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret\n")
    (tmp_path / "output.0").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "output.10")
    (tmp_path / "output.20").mkdir()
    (tmp_path / "output.30").write_bytes(b"its own\n")
    (tmp_path / "output.30.times").mkdir()
    assert lines_of(tmp_path) == [LogLine(30, 0, b"its own\n", dropped_bytes=30)]
    assert logfile.read_log(tmp_path, 0, 1 << 20, 5, ended=True).lines


def test_a_link_that_takes_an_outputs_place_while_it_is_read_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret\n")
    (tmp_path / "output.0").symlink_to(tmp_path / "secret")
    assert logfile.Segment(tmp_path, 0, 7).read(0, 7) == b""
