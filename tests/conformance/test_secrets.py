"""Secret files: an attempt's own while it runs, and nobody's afterwards, however it ended."""

import asyncio
import dataclasses
import os
import signal
from pathlib import Path

import pytest

from iris_fed.backends.base import Backend, BackendUnavailable, Ended, EndKind, LaunchRequest
from iris_fed.backends.local.client import wait_for_exit
from iris_fed.backends.local.records import Records
from iris_fed.backends.posix import files
from iris_fed.model.files import NoSuchFile
from tests.conformance.harness import NO_PROGRAM, PATIENCE_S, Harness, LocalHarness, Witness, request

SECRETS = {"key.pem": "-----BEGIN\nhunter2\n", "..token": "hunter2 too"}
PAGE = 1 << 20


def with_secrets(asked: LaunchRequest) -> LaunchRequest:
    return dataclasses.replace(asked, secret_files=SECRETS)


async def puppet(harness: Harness, timeout_ms: int | None = None) -> tuple[Backend, Witness]:
    """`a` runs, with secret files."""
    backend, witness = await harness.open()
    await backend.launch(with_secrets(harness.puppet("a", timeout_ms=timeout_ms)))
    await witness.until_running("a")
    return backend, witness


@pytest.mark.parametrize("way", ["exit", "die", "kill", "expire"])
async def test_secret_files_are_there_while_an_attempt_runs_and_gone_once_it_has_ended(
    harness: Harness, way: str
) -> None:
    backend, witness = await puppet(harness, timeout_ms=400 if way == "expire" else None)
    if way != "expire":
        assert harness.secret_files("a") == SECRETS
    match way:
        case "exit":
            await harness.exit("a", 3)
        case "die":
            await harness.die("a", signal.SIGKILL)
        case "kill":
            await backend.kill("a")
        case _:
            await harness.expire("a")
    await witness.until_ended("a")
    assert harness.secret_files("a") == {}


async def test_an_attempt_that_cannot_start_leaves_none(harness: Harness) -> None:
    backend, witness = await harness.open()
    await backend.launch(with_secrets(request("a", NO_PROGRAM)))
    assert (await witness.until_ended("a")).end.kind is EndKind.NOT_STARTED
    assert harness.secret_files("a") == {}


async def test_a_controller_that_was_away_at_the_end_finds_none_left(harness: Harness) -> None:
    backend, _ = await puppet(harness)
    await harness.crash(backend)
    await harness.exit("a", 0)
    second, witness = await harness.open()
    (found,) = (await second.recover(["a"])).observations
    if not isinstance(found, Ended):
        await witness.until_ended("a")
    assert harness.secret_files("a") == {}


async def test_the_task_alone_reads_them_outside_of_its_work_directory(local: LocalHarness) -> None:
    script = 'cd "$IRIS_SECRETS_DIR"; stat -c "%a %n" . .* *; cat key.pem; exec sleep 1000'
    backend, witness = await local.open()
    await backend.launch(with_secrets(request("a", "sh", "-c", script)))
    folder = local.attempt_folder("a")
    said, offset = b"", 0
    while b"hunter2\n" not in said:
        assert await backend.wait_log("a", offset, PATIENCE_S)
        page = await backend.read_log("a", offset, PAGE)
        said, offset = said + b"".join(line.data for line in page.lines), page.next_offset
    assert {"700 .", "600 key.pem", "600 ..token"} <= set(said.decode().splitlines())
    env = (await backend.exec("a", ["env"], PATIENCE_S, PAGE)).stdout.decode().splitlines()
    assert f"IRIS_SECRETS_DIR={folder / files.SECRETS}" in env
    assert not [line for line in env if "hunter2" in line]
    assert (await backend.list_files("a", "", 10)).entries == ()
    for path in ("secrets/key.pem", "key.pem"):
        with pytest.raises(NoSuchFile):
            await backend.read_file("a", path, 0, PAGE)
    kept = [path for path in local.state_dir.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert {path.parent.name for path in kept if "output" not in path.name} == {files.SECRETS}
    await backend.kill("a")
    await witness.until_ended("a")
    assert not (folder / files.SECRETS).exists()


async def test_a_setup_has_them_too_and_without_secrets_there_is_no_directory(local: LocalHarness) -> None:
    backend, witness = await local.open()
    asked = request("a", "sh", "-c", '[ "$COPY" = "hunter2 too" ]')
    setup = ('export COPY="$(cat "$IRIS_SECRETS_DIR/..token")"',)
    await backend.launch(dataclasses.replace(with_secrets(asked), setup=setup))
    assert (await witness.until_ended("a")).end.exit_code == 0
    await backend.launch(request("b", "sh", "-c", '[ -z "${IRIS_SECRETS_DIR+set}" ] && [ ! -e ../secrets ]'))
    assert (await witness.until_ended("b")).end.exit_code == 0


async def test_the_death_of_the_launcher_leaves_them_to_the_task_and_removes_them_at_its_end(
    local: LocalHarness,
) -> None:
    backend, witness = await puppet(local)
    launcher = local.launcher_pid()
    os.kill(launcher, signal.SIGKILL)
    assert await asyncio.to_thread(wait_for_exit, launcher, PATIENCE_S)
    assert local.secret_files("a") == SECRETS
    await backend.kill("a")
    await witness.until_ended("a")
    assert local.secret_files("a") == {}


async def test_what_died_with_its_launcher_while_the_controller_was_away_is_cleaned_at_the_next_start(
    local: LocalHarness,
) -> None:
    backend, _ = await puppet(local)
    await local.crash(backend)
    everything = local.processes()
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in everything:
            os.kill(pid, number)
    for pid in everything:
        assert await asyncio.to_thread(wait_for_exit, pid, PATIENCE_S)
    assert local.secret_files("a") == SECRETS
    second, witness = await local.open()
    assert (await witness.until_ended("a")).end.kind is EndKind.LOST
    assert local.secret_files("a") == {}
    await second.forget("a")


async def test_those_of_an_attempt_that_a_crash_kept_from_starting_go_with_the_next_start(
    local: LocalHarness,
) -> None:
    records = Records(local.state_dir)
    records.prepare()
    records.write_secrets("never", SECRETS)
    records.write_secrets("ended", SECRETS)
    for name in (files.ATTEMPT, files.EXIT):
        files.write_record(str(local.attempt_folder("ended")), name, {}, durable=False)
    backend, witness = await local.open()
    assert [local.secret_files(uid) for uid in ("never", "ended")] == [{}, {}]
    await backend.launch(with_secrets(local.puppet("never")))
    await witness.until_running("never")
    assert local.secret_files("never") == SECRETS
    await local.exit("never", 0)
    await witness.until_ended("never")


async def test_a_launch_that_failed_takes_back_what_it_had_written(local: LocalHarness) -> None:
    backend, witness = await local.open()
    asked = with_secrets(local.puppet("a"))
    in_the_way = local.attempt_folder("a") / files.SECRETS / "..token"
    in_the_way.mkdir(parents=True)
    with pytest.raises(BackendUnavailable, match="Is a directory"):
        await backend.launch(asked)
    assert os.listdir(in_the_way.parent) == ["..token"]
    in_the_way.rmdir()
    await backend.launch(asked)
    await local.exit("a", 0)
    await witness.until_ended("a")


def test_removal_follows_no_link_opens_what_was_closed_and_leaves_what_is_the_tasks(tmp_path: Path) -> None:
    records = Records(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "key.pem").write_text("somebody's")
    (records.folder("linked")).mkdir(parents=True)
    (records.folder("linked") / files.SECRETS).symlink_to(elsewhere)
    records.write_secrets("closed", SECRETS)
    (records.folder("closed") / files.SECRETS).chmod(0o000)
    records.write_secrets("used", SECRETS)
    (records.folder("used") / files.SECRETS / "deep").mkdir()
    for uid in ("linked", "closed", "used", "nothing"):
        records.remove_secrets(uid)
        files.remove_secrets(str(records.folder(uid)), SECRETS)
    assert (elsewhere / "key.pem").read_text() == "somebody's"
    assert not (records.folder("closed") / files.SECRETS).exists()
    assert os.listdir(records.folder("used") / files.SECRETS) == ["deep"]
