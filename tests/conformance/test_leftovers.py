"""What a task leaves behind goes, however it was made."""

import os
from pathlib import Path

from iris_fed.backends.local.records import Records
from iris_fed.backends.posix.files import ATTEMPT, WORK

DEPTH = 3_000


def _deep_tree(work: Path) -> None:
    """Deeper than any path may be long: made step by step."""
    work.mkdir(parents=True)
    fd = os.open(work, os.O_RDONLY)
    try:
        for _ in range(DEPTH):
            os.mkdir("d", dir_fd=fd)
            below = os.open("d", os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = below
    finally:
        os.close(fd)


def test_a_directory_deeper_than_any_recursion_goes(tmp_path: Path) -> None:
    records = Records(tmp_path)
    folder = records.folder("a1")
    _deep_tree(folder / WORK)
    (folder / ATTEMPT).write_text("{}")
    (folder / WORK / "closed").mkdir(mode=0o000)
    (folder / WORK / "link").symlink_to(tmp_path)
    records.remove("a1")
    assert not folder.exists()
    assert tmp_path.exists()


def test_what_is_not_there_is_gone_already(tmp_path: Path) -> None:
    Records(tmp_path).remove("a1")
    assert list(tmp_path.iterdir()) == []
