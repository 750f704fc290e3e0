"""A work directory is filled with what belongs there, and read without following what a task planted."""

import io
import os
import socket
import stat
import threading
import zipfile
from pathlib import Path

import pytest

from iris_fed.backends.posix import workdir
from iris_fed.errors import InvalidArgument
from iris_fed.model.files import NoSuchFile, UnsafeBundle


def archive(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in members:
            bundle.writestr(name, content)
    return path


def with_mode(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


# --- filling ---


def test_a_bundle_is_unpacked_with_its_folders_and_executable_bits(tmp_path: Path) -> None:
    bundle = archive(
        tmp_path / "b.zip",
        (with_mode("bin/run", stat.S_IFREG | 0o755), b"#!/bin/sh\n"),
        (with_mode("data.txt", stat.S_IFREG | 0o600), b"data"),
        (with_mode("empty/", stat.S_IFDIR | 0o755), b""),
        (with_mode("suid", stat.S_IFREG | 0o4777), b"x"),
    )
    work = tmp_path / "work"
    workdir.fill(work, {}, bundle)
    assert (work / "data.txt").read_bytes() == b"data"
    assert (work / "empty").is_dir()
    modes = {name: stat.S_IMODE((work / name).stat().st_mode) for name in ("bin/run", "data.txt", "suid")}
    assert modes == {"bin/run": 0o755, "data.txt": 0o644, "suid": 0o755}


def test_single_files_go_over_the_bundle_and_filling_again_changes_nothing(tmp_path: Path) -> None:
    bundle = archive(tmp_path / "b.zip", ("a/conf", b"old"), ("b", b"b"))
    work = tmp_path / "work"
    for _ in range(2):
        workdir.fill(work, {"a/conf": b"new", "deep/er/file": b"\0\xff"}, bundle)
    assert (work / "a/conf").read_bytes() == b"new"
    assert (work / "deep/er/file").read_bytes() == b"\0\xff"
    assert (work / "b").read_bytes() == b"b"


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("../evil", b"x")], "no path below"),
        ([("a/../../evil", b"x")], "no path below"),
        ([("/evil", b"x")], "no path below"),
        ([(with_mode("link", stat.S_IFLNK | 0o777), b"/etc/passwd")], "link or device"),
        ([(with_mode("dev", stat.S_IFCHR | 0o666), b"")], "link or device"),
        ([("a", b"x"), ("a/b", b"x")], "File exists|Not a directory"),
        ([("n" * 300, b"x")], "File name too long"),
    ],
)
def test_an_unsafe_bundle_is_refused_and_writes_nothing_outside(
    tmp_path: Path, members: list[tuple[str | zipfile.ZipInfo, bytes]], words: str
) -> None:
    bundle = archive(tmp_path / "b.zip", *members)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(UnsafeBundle, match=words):
        workdir.fill(tmp_path / "work", {}, bundle)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "work") == before
    assert not any(path.is_symlink() for path in (tmp_path / "work").rglob("*"))


def test_a_bomb_is_stopped_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workdir, "MAX_UNPACKED_BYTES", 5_000_000)
    bundle = archive(tmp_path / "b.zip", ("a", bytes(3_000_000)), ("b", bytes(3_000_000)))
    with pytest.raises(UnsafeBundle, match="more than 5000000 bytes"):
        workdir.fill(tmp_path / "work", {}, bundle)
    written = sum(path.stat().st_size for path in (tmp_path / "work").iterdir())
    assert written <= 5_000_000


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x05\x06" + bytes(10)])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    bundle = tmp_path / "b.zip"
    bundle.write_bytes(content)
    with pytest.raises(UnsafeBundle, match=r"no readable zip"):
        workdir.fill(tmp_path / "work", {}, bundle)


def test_a_bundle_with_a_flipped_bit_is_refused(tmp_path: Path) -> None:
    bundle = archive(tmp_path / "b.zip", (zipfile.ZipInfo("a"), b"A" * 100))
    raw = bytearray(bundle.read_bytes())
    raw[50] ^= 1
    bundle.write_bytes(raw)
    with pytest.raises(UnsafeBundle, match=r"no readable zip"):
        workdir.fill(tmp_path / "work", {}, bundle)


def test_a_bundle_that_is_gone_is_said_to_be_gone(tmp_path: Path) -> None:
    with pytest.raises(UnsafeBundle, match="gone from this cluster's disk"):
        workdir.fill(tmp_path / "work", {}, tmp_path / "missing")


@pytest.mark.parametrize("path", ["../x", "/x", "a//b", ".", "a/./b", "", "a/"])
def test_a_single_file_does_not_leave_the_work_directory(tmp_path: Path, path: str) -> None:
    with pytest.raises(UnsafeBundle, match="no path below"):
        workdir.fill(tmp_path / "work", {path: b"x"}, None)


def test_a_full_disk_is_no_fault_of_the_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, data: bytes) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(OSError, match="No space left"):
        workdir.fill(tmp_path / "work", {"a": b"x"}, None)


# --- reading ---


def names(work: Path, path: str = "", limit: int = 100) -> list[str]:
    return [entry.path for entry in workdir.list_files(work, path, limit)[0]]


def test_a_folder_is_listed_by_name_with_sizes_modes_and_times(work: Path) -> None:
    (work / "sub").mkdir(mode=0o750)
    (work / "b").write_bytes(b"12345")
    (work / "b").chmod(0o640)
    os.utime(work / "b", (1_700_000_000, 1_700_000_000))
    (file, folder), more = workdir.list_files(work, "", 100)
    assert (file.path, file.is_folder, file.size, file.mode) == ("b", False, 5, 0o640)
    assert file.modified_ms == 1_700_000_000_000
    assert (folder.path, folder.is_folder, folder.size, more) == ("sub", True, 0, False)


def test_a_long_listing_is_cut_and_says_so(work: Path) -> None:
    for number in range(5):
        (work / str(number)).touch()
    entries, more = workdir.list_files(work, "", 3)
    assert ([entry.path for entry in entries], more) == (["0", "1", "2"], True)
    assert workdir.list_files(work, "", 5)[1] is False


def test_a_single_file_and_a_nested_folder_can_be_listed(work: Path) -> None:
    (work / "a/b").mkdir(parents=True)
    (work / "a/b/c").write_bytes(b"x")
    assert names(work, "a") == ["a/b"]
    assert names(work, "a/b") == names(work, "a/b/c") == ["a/b/c"]


def test_a_file_is_read_from_any_offset(work: Path) -> None:
    (work / "f").write_bytes(b"0123456789")
    read = [workdir.read_file(work, "f", offset, 4) for offset in (0, 8, 10, 99)]
    assert [(chunk.data, chunk.size) for chunk in read] == [(b"0123", 10), (b"89", 10), (b"", 10), (b"", 10)]


@pytest.mark.parametrize("target", ["/etc/passwd", "/etc", "real", "."])
def test_links_are_left_out_and_not_followed(work: Path, target: str) -> None:
    (work / "real").write_bytes(b"x")
    (work / "link").symlink_to(target)
    assert names(work) == ["real"]
    for read in (lambda: workdir.read_file(work, "link", 0, 10), lambda: workdir.list_files(work, "link", 10)):
        with pytest.raises(NoSuchFile, match=r"^link (is a link|does not lie)"):
            read()


def test_a_folder_that_was_swapped_for_a_link_is_not_entered(work: Path) -> None:
    (work / "etc").symlink_to("/etc")
    for path in ("etc/passwd", "etc/ssl"):
        with pytest.raises(NoSuchFile, match="links are not followed"):
            workdir.read_file(work, path, 0, 10)
        with pytest.raises(NoSuchFile, match="links are not followed"):
            workdir.list_files(work, path, 10)


def test_the_work_directory_itself_may_not_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "work").symlink_to("/etc")
    with pytest.raises(NoSuchFile):
        workdir.list_files(tmp_path / "work", "", 10)


def test_a_folder_swapped_back_and_forth_never_leads_outside(work: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/f").write_bytes(b"secret")
    (work / "real").mkdir()
    (work / "real/f").write_bytes(b"public")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.symlink(tmp_path / "secret", work / "new")
            os.replace(work / "new", work / "d")
            os.unlink(work / "d")
            os.rename(work / "real", work / "d")
            os.rename(work / "d", work / "real")

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = set()
    for _ in range(3_000):
        try:
            seen.add(workdir.read_file(work, "d/f", 0, 100).data)
        except NoSuchFile:
            continue
    stop.set()
    swapper.join()
    assert seen <= {b"public"}


def test_pipes_sockets_and_devices_do_not_block_a_reader(work: Path) -> None:
    os.mkfifo(work / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(work / "socket"))
        assert names(work) == []
        for name in ("pipe", "socket"):
            with pytest.raises(NoSuchFile, match=r"neither a file nor a folder|cannot be read"):
                workdir.read_file(work, name, 0, 10)
            with pytest.raises(NoSuchFile):
                workdir.list_files(work, name, 10)


@pytest.mark.parametrize("path", ["..", "../x", "a/../../x", "/etc/passwd", "a//b", "./a", "a\0b", "x" * 5_000])
def test_a_path_that_leaves_the_work_directory_is_refused(work: Path, path: str) -> None:
    with pytest.raises(InvalidArgument, match="no path below the work directory"):
        workdir.read_file(work, path, 0, 10)
    with pytest.raises(InvalidArgument, match="no path below the work directory"):
        workdir.list_files(work, path, 10)


def test_what_is_not_there_and_what_is_no_file_say_so(work: Path) -> None:
    (work / "d").mkdir()
    with pytest.raises(NoSuchFile, match=r"^nothing does not exist"):
        workdir.read_file(work, "nothing", 0, 10)
    with pytest.raises(NoSuchFile, match=r"^d is a folder"):
        workdir.read_file(work, "d", 0, 10)
    with pytest.raises(NoSuchFile, match=r"^the work directory does not exist"):
        workdir.list_files(work / "gone", "", 10)


def test_a_name_that_is_no_utf8_is_left_out_so_that_the_rest_can_be_told(work: Path) -> None:
    (work / "good").touch()
    with open(os.fsencode(work) + b"/bad-\xff", "wb"):
        pass
    assert names(work) == ["good"]


def test_no_descriptor_is_left_open_whatever_was_asked(work: Path) -> None:
    (work / "a/b").mkdir(parents=True)
    (work / "link").symlink_to("/etc")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("a/b", "a/nothing", "link", "link/x", "a/b/c/d"):
        try:
            workdir.list_files(work, path, 10)
        except NoSuchFile:
            continue
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_archive_in_memory_is_what_the_other_tests_say(tmp_path: Path) -> None:
    """The writer of these tests keeps modes; else the tests of modes would prove nothing."""
    raw = archive(tmp_path / "b.zip", (with_mode("x", stat.S_IFLNK | 0o777), b"t")).read_bytes()
    (member,) = zipfile.ZipFile(io.BytesIO(raw)).infolist()
    assert stat.S_ISLNK(member.external_attr >> 16)
