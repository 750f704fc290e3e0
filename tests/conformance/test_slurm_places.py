"""A place on the shared directory belongs to the task's account: what it does there leads us nowhere else."""

import dataclasses
import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iris_fed.backends.base import AttemptEnd, Ended, EndKind, LaunchRequest
from iris_fed.backends.posix import files, removal
from iris_fed.backends.posix.spawn import Account
from iris_fed.backends.slurm import layout
from iris_fed.backends.slurm.shared import Contents, Kept, Shared
from iris_fed.model.resources import Resources

NOBODY = pwd.getpwnam("nobody")
ACCOUNT = Account(NOBODY.pw_uid, NOBODY.pw_gid, [NOBODY.pw_gid])
KEPT = Kept("a", "/a/b/0", "hub", "db", "a")
EXIT = {
    "kind": "EXITED",
    "exit_code": 3,
    "signal": None,
    "message": "",
    "started_ms": 1,
    "finished_ms": 2,
    "usage": {},
}
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a place to another account")


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder that other accounts may pass through."""
    folder = Path(tempfile.mkdtemp(prefix="iris-fed-places-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def shared(root: Path) -> Shared:
    made = Shared(root / "shared", open_to_others=True)
    made.prepare()
    return made


@pytest.fixture
def victim(root: Path) -> Path:
    """Somebody else's folder, with a file."""
    folder = root / "victim"
    folder.mkdir(mode=0o755)
    (folder / "precious").write_text("precious")
    return folder


def contents(*gang: str, secret: str = "") -> Contents:
    secrets = {"key": secret} if secret else {}
    asked = LaunchRequest("a", "/a/b/0", ("true",), {}, Resources(), files={"f": b"1"}, secret_files=secrets)
    return Contents(asked, {"argv": ["true"]}, "true\n", gang)


def as_nobody(script: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        ["/bin/sh", "-c", script], user="nobody", cwd="/", check=False, capture_output=True, timeout=20
    )


@needs_root
def test_a_layout_that_failed_and_is_repeated_writes_through_nothing_that_the_account_planted(
    shared: Shared, victim: Path
) -> None:
    blocked = shared.folder / layout.RECORDS / "a"
    blocked.write_text("")
    with pytest.raises(FileExistsError):
        shared.lay_out(KEPT, contents(secret="s"), ACCOUNT)
    blocked.unlink()
    place = shared.place("a")
    planted = (
        f"cd {place} && mv work gone && ln -s {victim} work && mv secrets gone2 && ln -s {victim} secrets && "
        f"rm setup.sh launch.json && ln -s {victim}/precious setup.sh && ln -s {victim}/precious launch.json.tmp"
    )
    assert as_nobody(planted).returncode == 0
    shared.lay_out(KEPT, contents(secret="s"), ACCOUNT)
    assert [(one.name, one.read_text(), one.owner()) for one in victim.iterdir()] == [("precious", "precious", "root")]
    assert victim.owner() == "root"
    assert (place / "work" / "f").read_bytes() == b"1"
    assert {one.name for one in place.iterdir()} == {"work", "secrets", "setup.sh", "launch.json"}
    assert {one.owner() for one in (place, *place.rglob("*"))} == {"nobody"}


@needs_root
def test_who_swaps_a_directory_for_a_link_while_it_is_removed_has_nothing_else_removed(
    shared: Shared, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.lay_out(KEPT, contents(), ACCOUNT)
    place = shared.place("a")
    as_nobody(f"mkdir -p {place}/work/x/y")
    scan, tries = os.scandir, []

    def swap_first(where: Any) -> Any:
        script = f"cd {place} && for d in .removing-* work; do mv $d was-$d; ln -s {victim} $d; done"
        tries.append(as_nobody(script).returncode)
        return scan(where)

    monkeypatch.setattr(os, "scandir", swap_first)
    shared.remove("a")
    monkeypatch.undo()
    assert len(tries) >= 4
    assert (victim / "precious").read_text() == "precious"
    assert (victim.owner(), victim.stat().st_mode & 0o777) == ("root", 0o755)
    assert not place.exists()
    assert shared.kept("a") is None


@needs_root
def test_who_still_stands_in_a_directory_that_is_being_removed_cannot_change_it(root: Path) -> None:
    place = root / "place"
    (place / "work").mkdir(parents=True)
    for folder in (place, place / "work"):
        os.chown(folder, ACCOUNT.uid, ACCOUNT.gid)
    inside = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    removal.empty(place)
    planted = subprocess.run(
        ["/bin/sh", "-c", f"ln -s /etc /proc/self/fd/{inside}/link"],
        user="nobody",
        pass_fds=[inside],
        check=False,
        capture_output=True,
        timeout=20,
    )
    os.close(inside)
    assert planted.returncode != 0
    assert list(place.iterdir()) == []


def test_what_is_no_directory_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(NotADirectoryError):
        removal.empty(tmp_path / "link")
    assert (tmp_path / "precious").exists()


@pytest.mark.parametrize("what", ["folder", "fifo", "link", "bomb", "deep", "huge", "binary"])
def test_what_a_task_makes_of_its_records_hides_no_other_attempt(shared: Shared, what: str) -> None:
    shared.lay_out(KEPT, contents(), None)
    path = shared.place("a") / files.EXIT
    keeper: list[int] = []
    match what:
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
            keeper.append(os.open(path, os.O_RDWR))
        case "link":
            path.symlink_to("/etc/passwd")
        case "bomb":
            path.write_text(json.dumps({**EXIT, "more": [[]] * files.MAX_TASKS_BYTES}))
        case "deep":
            path.write_text("[" * 60_000)
        case "huge":
            path.write_text('{"kind": ' + "9" * 60_000 + "}")
        case "binary":
            path.write_bytes(b"\xff\xfe")
    assert shared.look("a").result is None
    for fd in keeper:
        os.close(fd)


def test_an_end_is_settled_whatever_a_task_made_of_its_launch_record(shared: Shared) -> None:
    shared.lay_out(KEPT, contents(), None)
    launch = shared.place("a") / layout.LAUNCH
    launch.unlink()
    launch.mkdir()
    shared.write_end(Ended("a", AttemptEnd(EndKind.EXITED, 3), 1, 2))
    ended = shared.end("a")
    assert ended is not None
    assert ended.end.exit_code == 3


def test_a_gang_of_which_not_all_were_laid_out_never_came_to_be(shared: Shared) -> None:
    members = [dataclasses.replace(KEPT, uid=uid, job="m0", members=2) for uid in ("m0", "m1", "w0", "w1")]
    whole = [dataclasses.replace(one, job="w0") for one in members[2:]]
    for one in (members[0], *whole):
        shared.lay_out(one, contents("x", "y"), None)
    uids, unfinished = shared.known()
    assert (uids, {one.uid for one in unfinished}) == ({"w0", "w1"}, {"w0", "w1"})
    assert not shared.place("m0").exists()
    # Of one that has begun, or has ended, a record was lost.
    (shared.folder / layout.RECORDS / "w1" / files.ATTEMPT).unlink()
    layout.create(str(shared.place("w0") / layout.BEGUN))
    assert shared.known()[0] == {"w0"}
