"""The launcher's edges: a controller that does not read, a disk without room."""

import asyncio
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iris_fed.backends.base import BackendUnavailable, Ended, EndKind
from iris_fed.backends.local.client import connect, wait_for_exit
from iris_fed.backends.local.launcher_connection import MAX_PENDING_BYTES, Connection
from iris_fed.backends.local.records import AttemptRecord, Records
from iris_fed.backends.local.tracker import Tracker
from iris_fed.backends.posix import files
from iris_fed.backends.posix.capacity import Allotment
from iris_fed.backends.posix.files import Record
from iris_fed.backends.posix.loop import Loop
from tests.conformance.conftest import SETTINGS
from tests.conformance.harness import PATIENCE_S, LocalHarness

ROOM_KIB = 512


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={ROOM_KIB}k", "tmpfs", str(disk)]
    if os.getuid() != 0 or subprocess.run(["mount", *options], check=False, capture_output=True).returncode != 0:
        pytest.skip("no right to mount a small disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def fill(path: Path) -> None:
    with open(path, "wb", buffering=0) as stream:
        try:
            while True:
                stream.write(bytes(4096))
        except OSError:
            return


async def test_a_full_disk_refuses_launches_and_delays_ends_but_loses_none(small_disk: Path) -> None:
    harness = LocalHarness(small_disk, SETTINGS)
    backend, witness = await harness.open()
    asked = harness.puppet("a")
    await backend.launch(asked)
    await witness.until_running("a")
    refused = harness.puppet("b")
    fill(small_disk / "filler")
    with pytest.raises(BackendUnavailable, match="No space left"):
        await backend.launch(refused)
    pid = files.read_record(str(harness.state_dir / "attempts" / "a" / files.PROCESS))["pid"]  # type: ignore[index]
    await harness.exit("a", 6)
    assert await asyncio.to_thread(wait_for_exit, pid, PATIENCE_S)
    (small_disk / "filler").unlink()
    end = (await witness.until_ended("a")).end
    assert (end.kind, end.exit_code) == (EndKind.EXITED, 6)
    await backend.launch(refused)
    await harness.exit("b", 0)
    await witness.until_ended("b")
    await harness.close()


def test_a_controller_that_does_not_read_is_cut_off() -> None:
    ours, theirs = socket.socketpair()
    closed: list[Connection] = []
    connection = Connection(Loop(), ours, lambda connection, request: None, closed.append)
    event: Record = {"event": "sampled", "filler": "x" * (1 << 20)}
    told = 0
    while not closed:
        connection.send(event)
        told += 1 << 20
        assert told < 4 * MAX_PENDING_BYTES
    assert closed == [connection]
    theirs.close()


async def test_the_launchers_own_record_decides_whether_a_uid_was_started(local: LocalHarness) -> None:
    await local.open()
    client, _ = await connect(local.state_dir, 60.0, lambda event: None, lambda: None)
    asked = local.puppet("a")
    launch = {
        "uid": "a",
        "argv": list(asked.argv),
        "env": {**asked.env, "PATH": os.defpath},
        "record": AttemptRecord("a", "/t/0", "hub", "db-1", Allotment(), {}, 0).to_json(),
        "contain": "auto",
        "output_bytes": 4096,
        "memory_bytes": 0,
        "timeout_ms": 0,
        "grace_s": 0.1,
        "account": None,
    }
    assert not (await client.request("launch", **launch))["known"]
    assert (await client.request("launch", **launch))["known"]
    await local.exit("a", 0)
    while (await client.request("list"))["alive"]:
        await client.request("hello")
    assert (await client.request("launch", **launch))["known"]
    assert local.runs("a") == 1
    await client.close()


async def test_a_kill_that_finds_the_launcher_dead_ends_the_attempt_all_the_same(local: LocalHarness) -> None:
    backend, witness = await local.open()
    await backend.launch(local.puppet("a"))
    await witness.until_running("a")
    launcher = local.launcher_pid()
    os.kill(launcher, signal.SIGKILL)
    assert await asyncio.to_thread(wait_for_exit, launcher, PATIENCE_S)
    await backend.kill("a")
    assert (await witness.until_ended("a")).end.kind is EndKind.KILLED


async def test_an_end_that_is_told_while_the_disk_is_first_read_is_not_missed(
    local: LocalHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, witness = await local.open()
    await first.launch(local.puppet("a"))
    await witness.until_running("a")
    await local.crash(first)
    told = threading.Event()
    hear, read = Tracker.hear, Records.started

    def heard(tracker: Tracker, event: Record) -> None:
        hear(tracker, event)
        if event["event"] == "ended":
            told.set()

    def ends_meanwhile(records: Records) -> tuple[set[str], list[AttemptRecord]]:
        found = read(records)
        local.pull("a", "exit 4")
        assert told.wait(PATIENCE_S)
        return found

    monkeypatch.setattr(Tracker, "hear", heard)
    monkeypatch.setattr(Records, "started", ends_meanwhile)
    second, witness = await local.open()
    monkeypatch.undo()
    assert (await witness.until_ended("a")).end.exit_code == 4
    await second.forget("a")


async def test_what_is_no_request_ends_the_connection_not_the_launcher(local: LocalHarness) -> None:
    backend, witness = await local.open()
    reader, writer = await asyncio.open_unix_connection(_short(local.state_dir))
    writer.write(b"not json\n")
    assert await reader.read() == b""
    writer.close()
    await backend.launch(local.puppet("a"))
    await local.exit("a", 2)
    assert (await witness.until_ended("a")).end.exit_code == 2


def _short(state_dir: Path) -> str:
    return os.path.relpath(state_dir / "launcher.sock")


async def test_what_ends_while_the_state_directory_is_moved_aside_is_there_when_it_is_back(local: LocalHarness) -> None:
    """Somebody starts the controller on an empty directory, sees it, and corrects it."""
    first, seen = await local.open()
    for uid in ("ends", "goes-on"):
        await first.launch(local.puppet(uid))
        await seen.until_running(uid)
    pid = files.read_record(str(local.attempt_folder("ends") / files.PROCESS))["pid"]  # type: ignore[index]
    await local.crash(first)
    aside = local.state_dir.with_name("aside")
    local.state_dir.rename(aside)
    local.state_dir.mkdir()
    await local.say("ends", b"said meanwhile\n")
    await local.exit("ends", 7)
    assert await asyncio.to_thread(wait_for_exit, pid, PATIENCE_S)
    assert await asyncio.to_thread(appears, aside / files.ATTEMPTS / "ends" / files.EXIT)
    assert list(local.state_dir.iterdir()) == []
    local.state_dir.rmdir()
    aside.rename(local.state_dir)
    second, witness = await local.open()
    recovery = await second.recover({"ends", "goes-on"})
    assert recovery.unknown == frozenset()
    (end,) = [one.end for one in recovery.observations if isinstance(one, Ended)]
    assert (end.kind, end.exit_code) == (EndKind.EXITED, 7)
    page = await second.read_log("ends", 0, 1_000)
    assert [line.data for line in page.lines] == [b"said meanwhile\n"]
    await second.launch(local.puppet("next"))
    await witness.until_running("next")
    for uid in ("goes-on", "next"):
        await local.exit(uid, 0)
        assert (await witness.until_ended(uid)).end.exit_code == 0


def appears(path: Path) -> bool:
    """Whether the file is there before a patient test gives up."""
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        if time.monotonic() > deadline:
            return False
        os.sched_yield()
    return True
