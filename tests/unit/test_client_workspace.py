import io
import os
import socket
import stat
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iris_fed.cli.job_attachments import workspace_summary
from iris_fed.client import command_job
from iris_fed.client.workspace import MAX_FILES, pack, survey
from iris_fed.errors import InvalidArgument
from iris_fed.store.bundles import check_archive


def _write(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def _unpacked(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {info.filename: opened.read(info) for info in opened.infolist()}


def test_the_same_files_give_the_same_bytes_wherever_and_whenever_they_are_packed(tmp_path: Path) -> None:
    files = {"train.py": "run", "src/model.py": "model", "src/data/words.txt": "words"}
    first, second = _write(tmp_path / "first", files), _write(tmp_path / "second", dict(reversed(files.items())))
    os.utime(second / "train.py", (1, 1))
    (second / "src/model.py").chmod(0o600)
    assert pack(first) == pack(second)
    (second / "src/model.py").chmod(0o700)
    assert pack(first) != pack(second)


def test_only_whether_a_file_can_be_executed_is_kept_of_its_mode(tmp_path: Path) -> None:
    _write(tmp_path, {"run.sh": "#!/bin/sh", "notes": ""})
    (tmp_path / "run.sh").chmod(0o711)
    (tmp_path / "notes").chmod(0o640)
    with zipfile.ZipFile(io.BytesIO(pack(tmp_path))) as archive:
        modes = {info.filename: stat.S_IMODE(info.external_attr >> 16) for info in archive.infolist()}
    assert modes == {"run.sh": 0o755, "notes": 0o644}


IGNORED = {
    ".gitignore": "*.pyc\n/build/\ndata/*\n!data/small.txt\nold",
    "kept.py": "",
    "a.pyc": "",
    "build/out": "",
    "src/build/kept": "",
    "data/big.bin": "",
    "data/small.txt": "",
    "old/kept.txt": "",
    ".git/config": "",
    "src/.git": "",
    "src/.gitignore": "!kept.pyc\n*.tmp\n/only-here",
    "src/kept.pyc": "",
    "src/other.pyc": "",
    "src/x.tmp": "",
    "x.tmp": "",
    "src/only-here": "",
    "src/deep/only-here": "",
}


def test_what_git_ignores_stays_behind_and_the_deepest_rule_decides(tmp_path: Path) -> None:
    assert set(_unpacked(pack(_write(tmp_path, IGNORED)))) == {
        ".gitignore",
        "kept.py",
        "src/build/kept",
        "data/small.txt",
        "src/.gitignore",
        "src/kept.pyc",
        "x.tmp",
        "src/deep/only-here",
    }


def test_an_empty_folder_is_brought_along(tmp_path: Path) -> None:
    _write(tmp_path, {".gitignore": "*.ckpt\n", "out/a.ckpt": "", "out/deep/b.ckpt": ""})
    (tmp_path / "logs").mkdir()
    assert set(_unpacked(pack(tmp_path))) == {".gitignore", "logs/", "out/deep/"}


def test_a_link_that_stays_inside_is_sent_as_what_it_leads_to(tmp_path: Path) -> None:
    _write(tmp_path, {"data/v2/words": "new"})
    (tmp_path / "data/latest").symlink_to("v2")
    (tmp_path / "words").symlink_to(tmp_path / "data/v2/words")
    assert _unpacked(pack(tmp_path)) == dict.fromkeys(("data/v2/words", "data/latest/words", "words"), b"new")


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("/etc/passwd", "leaves the directory"),
        ("../outside", "leaves the directory"),
        (".git/config", "leaves the directory"),
        ("nowhere", "leads nowhere"),
        (".", "leads back"),
    ],
)
def test_a_link_that_cannot_be_sent_is_refused_by_name(tmp_path: Path, target: str, says: str) -> None:
    _write(tmp_path, {"outside": "", "work/.git/config": "", "work/src/x": ""})
    (tmp_path / "work/src/link").symlink_to(target if target in (".", "/etc/passwd") else f"../{target}")
    with pytest.raises(InvalidArgument, match=rf"'src/link'.*{says}.*\.gitignore"):
        pack(tmp_path / "work")
    _write(tmp_path, {"work/.gitignore": "link"})
    assert "src/link" not in _unpacked(pack(tmp_path / "work"))


def test_two_links_that_lead_to_each_other_end_in_a_refusal(tmp_path: Path) -> None:
    _write(tmp_path, {"a/x": "", "b/x": ""})
    (tmp_path / "a/to_b").symlink_to("../b")
    (tmp_path / "b/to_a").symlink_to("../a")
    with pytest.raises(InvalidArgument, match="leads back"):
        pack(tmp_path)


def test_pipes_sockets_and_names_that_not_every_system_has_are_refused_by_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidArgument, match=r"'pipe'.*device"):
        pack(tmp_path)
    (tmp_path / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises(InvalidArgument, match=r"'socket'.*device"):
            pack(tmp_path)
    (tmp_path / "socket").unlink()
    for name, says in ((os.fsdecode(b"\xff"), "UTF-8"), ("a\\b", "another system"), ("c:", "another system")):
        (tmp_path / name).touch()
        with pytest.raises(InvalidArgument, match=says):
            pack(tmp_path)
        (tmp_path / name).unlink()


def test_what_is_too_large_is_refused_with_the_largest_files(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(os.urandom(3_000_000))
    _write(tmp_path, {"small": "x"})
    packed = pack(tmp_path)
    assert pack(tmp_path, len(packed)) == packed
    for bound in (len(packed) - 1, 1_000_000):
        with pytest.raises(InvalidArgument, match=rf"{bound} bytes.*weights\.bin \(3000000 bytes\)"):
            pack(tmp_path, bound)


def test_more_files_than_a_controller_takes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iris_fed.client.workspace.MAX_FILES", 2)
    _write(tmp_path, {"a": "", "b": ""})
    assert survey(tmp_path).file_count == 2
    _write(tmp_path, {"c": ""})
    with pytest.raises(InvalidArgument, match="more than 2 files"):
        pack(tmp_path)
    assert MAX_FILES == 100_000


@pytest.mark.parametrize("directory", ["nowhere", "file"])
def test_a_workspace_that_is_no_directory_is_refused_by_name(tmp_path: Path, directory: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match=directory):
        pack(tmp_path / directory)


def test_what_will_be_sent_is_said_beforehand(tmp_path: Path) -> None:
    found = survey(_write(tmp_path / "work", {"a": "x" * 1_000, "b/c": "y" * 234}))
    assert (
        workspace_summary(found, 250) == f"sends 2 files, 1.23 kB (250 B packed), of {tmp_path}/work as the workspace"
    )


def test_a_job_takes_a_directory_or_what_was_packed_of_it(tmp_path: Path) -> None:
    _write(tmp_path, {"a": "x"})
    packed = pack(tmp_path)
    assert command_job(["true"], workspace=tmp_path).bundle_blob == packed
    assert command_job(["true"], workspace=packed).bundle_blob == packed
    assert not command_job(["true"]).HasField("bundle_blob")


_NAMES = st.text(st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters="/\\:"), min_size=1, max_size=20)
_PATHS = st.lists(_NAMES.filter(lambda name: name not in (".", "..", ".git", ".gitignore")), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(_PATHS.map("/".join), st.binary(max_size=200), max_size=6))
def test_whatever_was_packed_is_there_again_when_unpacked(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    root = tmp_path_factory.mktemp("workspace")
    written: dict[str, bytes] = {}
    for name, content in files.items():
        folders = [name.rsplit("/", count)[0] for count in range(1, name.count("/") + 1)]
        # One name cannot be both a file and a folder.
        if any(folder in written for folder in folders) or any(other.startswith(name + "/") for other in written):
            continue
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
        written[name] = content
    packed = pack(root)
    assert _unpacked(packed) == written
    check_archive(packed)
