"""The launcher's edges: a controller that does not read, a disk without room."""

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from iris_fed.backends.base import BackendUnavailable, EndKind
from iris_fed.backends.local import files
from iris_fed.backends.local.capacity import Allotment
from iris_fed.backends.local.client import connect, wait_for_exit
from iris_fed.backends.local.files import Record
from iris_fed.backends.local.launcher_connection import MAX_PENDING_BYTES, Connection
from iris_fed.backends.local.launcher_loop import Loop
from iris_fed.backends.local.records import AttemptRecord
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
    }
    assert not (await client.request("launch", **launch))["known"]
    assert (await client.request("launch", **launch))["known"]
    await local.exit("a", 0)
    while (await client.request("list"))["alive"]:
        await client.request("hello")
    assert (await client.request("launch", **launch))["known"]
    assert local.runs("a") == 1
    await client.close()


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
