"""Fetching, against files in memory and a real folder here."""

import os
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iris_fed.client.fetch import Fetched, fetch
from iris_fed.client.fetch_tasks import fetch_tasks
from iris_fed.client.file_stream import Piece
from iris_fed.errors import (
    Aborted,
    FailedPrecondition,
    InvalidArgument,
    IrisFedError,
    NotFound,
    ResourceExhausted,
    Unavailable,
)
from iris_fed.rpc.gen.irisfed.cluster_pb2 import FileEntry, ListFilesResponse

MODIFIED_MS = 1_700_000_000_123


@dataclass
class Attempt:
    """A work directory: contents by path. `cut_after` bytes of a read the connection breaks, `asked` are
    the reads so far."""

    files: dict[str, bytes]
    executable: frozenset[str] = frozenset()
    modified_ms: int = MODIFIED_MS
    cut_after: int | None = None
    told: dict[str, ListFilesResponse] = field(default_factory=dict)
    asked: list[tuple[str, int]] = field(default_factory=list)
    key: str = "/me/job/0:None"

    async def list(self, path: str) -> ListFilesResponse:
        if path in self.told:
            return self.told[path]
        if path in self.files:
            return ListFilesResponse(entries=[self.entry(path)])
        above = path + "/" if path else ""
        inside = sorted({name[len(above) :].partition("/")[0] for name in self.files if name.startswith(above)})
        return ListFilesResponse(entries=[self.entry(above + name) for name in inside])

    async def read(self, path: str, offset: int) -> AsyncIterator[Piece]:
        self.asked.append((path, offset))
        data = self.files[path]
        yield Piece(b"", len(data))
        for start in range(offset, len(data), 3):
            if self.cut_after is not None and start - offset >= self.cut_after:
                raise Unavailable("the connection broke")
            yield Piece(data[start : start + 3], len(data))

    def entry(self, path: str) -> FileEntry:
        if path not in self.files:
            return FileEntry(path=path, is_folder=True, mode=0o755)
        mode = 0o755 if path in self.executable else 0o600
        return FileEntry(path=path, size=len(self.files[path]), modified_ms=self.modified_ms, mode=mode)


def _here(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


async def test_a_folder_arrives_under_its_own_name_with_times_and_executable_bits(tmp_path: Path) -> None:
    attempt = Attempt({"out/run.sh": b"#!", "out/deep/er/w": b"weights", "other": b"no"}, frozenset({"out/run.sh"}))
    done = await fetch(attempt, "out", tmp_path / "new/dest")
    assert _here(tmp_path / "new/dest") == {"out/run.sh": b"#!", "out/deep/er/w": b"weights"}
    assert done == Fetched(files=2, received_bytes=9)
    script, weights = (tmp_path / "new/dest/out/run.sh").stat(), (tmp_path / "new/dest/out/deep/er/w").stat()
    assert (bool(script.st_mode & stat.S_IXUSR), bool(weights.st_mode & stat.S_IXUSR)) == (True, False)
    assert script.st_mtime_ns == MODIFIED_MS * 1_000_000


@pytest.mark.parametrize("path", ["", "."])
async def test_of_the_whole_work_directory_comes_what_is_in_it(tmp_path: Path, path: str) -> None:
    await fetch(Attempt({"a": b"1", "b/c": b""}), path, tmp_path)
    assert _here(tmp_path) == {"a": b"1", "b/c": b""}


async def test_a_single_file_arrives_without_the_folders_above_it(tmp_path: Path) -> None:
    await fetch(Attempt({"deep/er/model.pt": b"weights"}), "./deep/er/model.pt", tmp_path)
    assert _here(tmp_path) == {"model.pt": b"weights"}


async def test_a_transfer_that_was_cut_goes_on_at_the_byte_where_it_was(tmp_path: Path) -> None:
    attempt = Attempt({"d/a": b"0123", "d/b": b"0123456789"}, cut_after=6)
    with pytest.raises(Unavailable):
        await fetch(attempt, "d", tmp_path)
    (part,) = (path for path in (tmp_path / "d").iterdir() if path.name.endswith(".part"))
    assert (part.read_bytes(), (tmp_path / "d/b").exists()) == (b"012345", False)
    attempt.cut_after = None
    done = await fetch(attempt, "d", tmp_path)
    assert attempt.asked == [("d/a", 0), ("d/b", 0), ("d/b", 6)]
    assert done == Fetched(files=2, received_bytes=4, kept_bytes=10)
    assert _here(tmp_path) == {"d/a": b"0123", "d/b": b"0123456789"}


@pytest.mark.parametrize("change", [{"modified_ms": MODIFIED_MS + 1}, {"key": "/me/job/1:None"}])
async def test_a_part_of_another_version_is_thrown_away(tmp_path: Path, change: dict[str, str]) -> None:
    with pytest.raises(Unavailable):
        await fetch(Attempt({"f": b"old and so on"}, cut_after=6), "f", tmp_path)
    await fetch(Attempt({"f": b"new and so on"}, **change), "f", tmp_path)  # type: ignore[arg-type]
    assert _here(tmp_path) == {"f": b"new and so on"}


async def test_what_is_here_already_is_sent_again_only_when_it_changed(tmp_path: Path) -> None:
    attempt = Attempt({"f": b"first"})
    await fetch(attempt, "f", tmp_path)
    assert (await fetch(attempt, "f", tmp_path)).kept_bytes == 5
    assert len(attempt.asked) == 1
    attempt.files["f"], attempt.modified_ms = b"again", MODIFIED_MS + 1
    assert (await fetch(attempt, "f", tmp_path)).received_bytes == 5
    assert _here(tmp_path) == {"f": b"again"}


async def test_a_file_that_became_shorter_meanwhile_is_not_passed_off_as_whole(tmp_path: Path) -> None:
    attempt = Attempt({"f": b"12345678"})
    attempt.told["f"] = ListFilesResponse(entries=[FileEntry(path="f", size=99, modified_ms=MODIFIED_MS)])
    with pytest.raises(Aborted, match="shorter"):
        await fetch(attempt, "f", tmp_path)
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize("named", ["../evil", "/evil", "d/../../evil", "evil", "d", "d/", "d/x/y", "d/..", "d/."])
async def test_a_name_that_would_leave_the_folder_is_refused(tmp_path: Path, named: str) -> None:
    attempt = Attempt({"d/good": b"1", named: b"evil"})
    attempt.told["d"] = ListFilesResponse(entries=[attempt.entry("d/good"), attempt.entry(named)])
    with pytest.raises(FailedPrecondition, match="not in 'd'"):
        await fetch(attempt, "d", tmp_path / "dest")
    assert _here(tmp_path) == {}
    assert attempt.asked == []


@pytest.mark.parametrize("path", ["../x", "/etc", "a//b", "a/./b"])
async def test_a_path_outside_the_work_directory_is_not_even_asked_for(tmp_path: Path, path: str) -> None:
    with pytest.raises(InvalidArgument):
        await fetch(Attempt({}), path, tmp_path)


async def test_links_here_are_never_followed(tmp_path: Path) -> None:
    attempt = Attempt({"d/f": b"new", "d/e/g": b"new"})
    outside = tmp_path / "outside"
    (outside / "e").mkdir(parents=True)
    (outside / "precious").write_bytes(b"precious")
    (tmp_path / "dest/d").mkdir(parents=True)
    (tmp_path / "dest/d/f").symlink_to(outside / "precious")
    (tmp_path / "dest/d/e").symlink_to(outside / "e")
    with pytest.raises(FailedPrecondition, match="'e' of 'd/e' is a link"):
        await fetch(attempt, "d", tmp_path / "dest")
    assert _here(outside) == {"precious": b"precious"}
    assert not (tmp_path / "dest/d/f").is_symlink()
    assert (tmp_path / "dest/d/f").read_bytes() == b"new"


async def test_a_link_in_the_place_of_a_part_is_not_written_through(tmp_path: Path) -> None:
    attempt = Attempt({"f": b"12345678"}, cut_after=3)
    with pytest.raises(Unavailable):
        await fetch(attempt, "f", tmp_path)
    (name,) = os.listdir(tmp_path)
    part = tmp_path / name
    (tmp_path / "elsewhere").write_bytes(b"")
    part.unlink()
    part.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FailedPrecondition, match="cannot write"):
        await fetch(attempt, "f", tmp_path)
    assert (tmp_path / "elsewhere").read_bytes() == b""


async def test_a_folder_in_the_way_of_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    with pytest.raises(FailedPrecondition, match="directory"):
        await fetch(Attempt({"f": b"1"}), "f", tmp_path)


async def test_a_fetch_is_bounded_in_bytes_and_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = Attempt({"d/a": b"12345", "d/b": b"12345"})
    assert (await fetch(attempt, "d", tmp_path / "fits", max_bytes=10)).files == 2
    with pytest.raises(ResourceExhausted, match="d/b"):
        await fetch(attempt, "d", tmp_path / "more", max_bytes=9)
    attempt.told["d"] = ListFilesResponse(entries=[attempt.entry("d/a")], truncated=True)
    with pytest.raises(ResourceExhausted, match="d holds more"):
        await fetch(attempt, "d", tmp_path / "cut")
    monkeypatch.setattr("iris_fed.client.fetch.MAX_FILES", 3)
    endless = Attempt({})
    path = ""
    for _ in range(5):
        endless.told[path] = ListFilesResponse(entries=[FileEntry(path=f"{path}/x".lstrip("/"), is_folder=True)])
        path = f"{path}/x".lstrip("/")
    with pytest.raises(ResourceExhausted, match="more than 3"):
        await fetch(endless, "", tmp_path / "endless")


async def test_progress_tells_how_much_of_a_file_is_here(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    attempt = Attempt({"f": b"1234567"})
    for _ in range(2):
        await fetch(attempt, "f", tmp_path, progress=lambda *news: told.append(news))
    assert told == [("f", 0, 7), ("f", 3, 7), ("f", 6, 7), ("f", 7, 7), ("f", 7, 7)]


async def test_two_fetches_do_not_write_into_one_part(tmp_path: Path) -> None:
    attempt = Attempt({"f": b"1234567"})
    second: list[IrisFedError] = []

    async def again(*_: object) -> None:
        try:
            await fetch(Attempt({"f": b"1234567"}), "f", tmp_path)
        except IrisFedError as error:
            second.append(error)

    original = attempt.read

    async def read(path: str, offset: int) -> AsyncIterator[Piece]:
        async for piece in original(path, offset):
            if not second:
                await again()
            yield piece

    attempt.read = read  # type: ignore[method-assign]
    await fetch(attempt, "f", tmp_path)
    assert "another fetch" in second[0].message
    assert _here(tmp_path) == {"f": b"1234567"}


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.dictionaries(st.sampled_from(["a", "d/b", "d/e/c", "d/f"]), st.binary(max_size=40)),
    cuts=st.lists(st.integers(0, 20), max_size=6),
)
async def test_however_often_it_is_cut_the_end_is_the_whole_and_no_byte_comes_twice(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], cuts: list[int]
) -> None:
    root = tmp_path_factory.mktemp("fetch")
    attempt = Attempt(files)
    for attempt.cut_after in [*cuts, None]:
        try:
            done = await fetch(attempt, "", root)
        except Unavailable:
            assert attempt.cut_after is not None
    assert _here(root) == files
    assert done.received_bytes + done.kept_bytes == sum(map(len, files.values()))
    assert os.listdir(root) or not files


@dataclass
class Lacking(Attempt):
    """A task without the path that is asked for."""

    async def list(self, path: str) -> ListFilesResponse:
        raise NotFound(f"{self.key}: {path} does not exist")


def _tasks(*found: dict[str, bytes] | None) -> list[Attempt]:
    return [
        Lacking({}, key=f"/me/job/{index}") if files is None else Attempt(files, key=f"/me/job/{index}")
        for index, files in enumerate(found)
    ]


async def test_each_task_has_a_folder_of_its_own_and_those_that_lack_the_path_are_named(tmp_path: Path) -> None:
    tasks = _tasks({"out/a": b"zero"}, None, {"out/a": b"two", "out/b": b"2", "x": b"no"})
    shown: list[str] = []
    done = await fetch_tasks(
        tasks.__getitem__, range(3), "out", tmp_path, progress=lambda path, done, size: shown.append(path)
    )
    assert _here(tmp_path) == {"0/out/a": b"zero", "2/out/a": b"two", "2/out/b": b"2"}
    assert (set(done.tasks), done.missing) == ({0, 2}, {1: "/me/job/1: out does not exist"})
    assert done.total == Fetched(files=3, received_bytes=8)
    assert set(shown) == {"0/out/a", "2/out/a", "2/out/b"}


async def test_several_tasks_go_on_where_they_were_cut(tmp_path: Path) -> None:
    tasks = _tasks({"f": b"0123456789"}, {"f": b"abcdefghij"})
    tasks[1].cut_after = 6
    with pytest.raises(Unavailable):
        await fetch_tasks(tasks.__getitem__, range(2), "f", tmp_path)
    tasks[1].cut_after = None
    done = await fetch_tasks(tasks.__getitem__, range(2), "f", tmp_path)
    assert (tasks[0].asked, tasks[1].asked) == ([("f", 0)], [("f", 0), ("f", 6)])
    assert done.tasks == {0: Fetched(1, 0, 10), 1: Fetched(1, 4, 6)}
    assert _here(tmp_path) == {"0/f": b"0123456789", "1/f": b"abcdefghij"}


@pytest.mark.parametrize("max_bytes", [7, 8])
async def test_the_bound_holds_for_all_tasks_together(tmp_path: Path, max_bytes: int) -> None:
    tasks = _tasks({"f": b"1234"}, {"f": b"5678"})
    if max_bytes == 8:
        assert (await fetch_tasks(tasks.__getitem__, range(2), "f", tmp_path, max_bytes=8)).total.files == 2
        return
    with pytest.raises(ResourceExhausted, match="would bring it over 7 bytes"):
        await fetch_tasks(tasks.__getitem__, range(2), "f", tmp_path, max_bytes=max_bytes)
    assert _here(tmp_path) == {"0/f": b"1234"}


async def test_what_no_task_has_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"none of the job's tasks has it; /me/job/0: f does not exist"):
        await fetch_tasks(_tasks(None, None).__getitem__, range(2), "f", tmp_path)
