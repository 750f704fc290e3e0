"""Commands in an attempt's place, and files of its work directory, from outside."""

import asyncio
import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from iris_fed.backends.base import Backend, LaunchRequest, NotRunning
from iris_fed.backends.local.client import wait_for_exit
from iris_fed.errors import InvalidArgument
from iris_fed.model.files import ExecResult, NoSuchFile
from tests.conformance.harness import PATIENCE_S, Harness, LocalHarness, Witness, request

PAGE = 1 << 20
MOST = 64 * 1024
SECONDS = 20.0


async def running(local: LocalHarness, *argv: str, **fields: object) -> tuple[Backend, Witness]:
    """An attempt `a` that prints `up` and goes on."""
    backend, witness = await local.open()
    program = argv or ("sh", "-c", "echo up; exec sleep 1000")
    asked = request("a", *program, env={"PATH": os.environ["PATH"], "OWN": "its own"})
    await backend.launch(dataclasses.replace(asked, **fields))  # type: ignore[arg-type]
    assert await backend.wait_log("a", 0, PATIENCE_S)
    return backend, witness


async def run(backend: Backend, *argv: str, timeout_s: float = SECONDS, max_bytes: int = MOST) -> ExecResult:
    return await backend.exec("a", argv, timeout_s, max_bytes)


async def ended(backend: Backend, witness: Witness) -> None:
    await backend.kill("a")
    await witness.until_ended("a")


async def until_gone(pid: int) -> None:
    assert await asyncio.to_thread(wait_for_exit, pid, PATIENCE_S), f"{pid} is still there"


class TestExec:
    async def test_a_command_runs_in_the_work_directory_and_environment_of_the_attempt(
        self, local: LocalHarness
    ) -> None:
        backend, witness = await running(local)
        result = await run(backend, "sh", "-c", 'pwd; echo "$OWN/$IRIS_ATTEMPT_UID"; pwd > trace; cat')
        folder = str(local.state_dir / "attempts/a/work")
        assert result == ExecResult(0, f"{folder}\nits own/a\n".encode(), b"")
        assert (await backend.read_file("a", "trace", 0, 1000)).data == f"{folder}\n".encode()
        await ended(backend, witness)

    async def test_what_a_setup_exported_is_there(self, local: LocalHarness) -> None:
        backend, witness = await running(local, setup=("export FROM_SETUP=yes",))
        await witness.until_running("a")
        assert (await run(backend, "sh", "-c", 'echo "$FROM_SETUP"')).stdout == b"yes\n"
        await ended(backend, witness)

    @pytest.mark.parametrize(
        ("argv", "code", "stderr"),
        [
            (("sh", "-c", "exit 7"), 7, b""),
            (("sh", "-c", "kill -9 $$"), 137, b""),
            (("sh", "-c", "echo out; echo err >&2; exit 3"), 3, b"err\n"),
            (("no-such-program",), 127, b"no-such-program: not found in PATH\n"),
        ],
    )
    async def test_a_command_gives_its_exit_code_and_its_outputs_apart(
        self, local: LocalHarness, argv: Sequence[str], code: int, stderr: bytes
    ) -> None:
        backend, witness = await running(local)
        result = await run(backend, *argv)
        assert (result.exit_code, result.stderr) == (code, stderr)
        assert result.stdout == (b"out\n" if code == 3 else b"")
        await ended(backend, witness)

    async def test_a_program_that_is_none_says_so(self, local: LocalHarness) -> None:
        backend, witness = await running(local)
        for path, code in (("/no/such", 127), ("/etc/passwd", 126)):
            result = await run(backend, path)
            assert (result.exit_code in (126, 127), result.exit_code is not None) == (True, True), (path, code)
            assert result.stderr != b""
        await ended(backend, witness)

    async def test_long_outputs_are_cut_each_for_itself_and_the_command_goes_on_to_its_end(
        self, local: LocalHarness
    ) -> None:
        backend, witness = await running(local)
        result = await run(backend, "sh", "-c", "head -c 3000000 /dev/zero; echo err >&2; exit 4", max_bytes=1000)
        assert (result.exit_code, result.stdout, result.stderr) == (4, bytes(1000), b"err\n")
        assert result.truncated
        exact = await run(backend, "head", "-c", "1000", "/dev/zero", max_bytes=1000)
        assert (len(exact.stdout), exact.truncated) == (1000, False)
        await ended(backend, witness)

    async def test_a_command_that_takes_too_long_is_killed_and_what_it_said_is_kept(self, local: LocalHarness) -> None:
        backend, witness = await running(local)
        result = await run(backend, "sh", "-c", "echo $$; trap '' TERM; sleep 1000", timeout_s=2.0)
        assert result.exit_code is None
        await until_gone(int(result.stdout))
        await ended(backend, witness)

    async def test_what_a_command_leaves_in_the_background_does_not_hold_up_its_answer(
        self, local: LocalHarness
    ) -> None:
        backend, witness = await running(local)
        for leave in ("sleep 1000 &", "setsid sleep 1000 &"):
            result = await run(backend, "sh", "-c", f"{leave} echo $!")
            assert result.exit_code == 0
            assert int(result.stdout) > 0
        await ended(backend, witness)

    async def test_a_command_ends_with_its_attempt(self, local: LocalHarness) -> None:
        backend, witness = await running(local)
        fifo = local.folder / "told"
        os.mkfifo(fifo)
        command = asyncio.create_task(run(backend, "sh", "-c", f"echo $$ > {fifo}; exec sleep 1000"))
        pid = int(await asyncio.to_thread(fifo.read_text))
        await ended(backend, witness)
        async with asyncio.timeout(PATIENCE_S):
            result = await command
        assert result.exit_code in (None, 137)
        await until_gone(pid)

    async def test_a_caller_that_goes_takes_the_command_along(self, local: LocalHarness) -> None:
        backend, witness = await running(local)
        fifo = local.folder / "told"
        os.mkfifo(fifo)
        command = asyncio.create_task(run(backend, "sh", "-c", f"echo $$ > {fifo}; exec sleep 1000"))
        pid = int(await asyncio.to_thread(fifo.read_text))
        command.cancel()
        with pytest.raises(asyncio.CancelledError):
            await command
        await until_gone(pid)
        await ended(backend, witness)

    async def test_a_command_finds_the_attempt_again_after_a_restart(self, local: LocalHarness) -> None:
        first, _ = await running(local)
        await local.crash(first)
        second, witness = await local.open()
        assert (await run(second, "sh", "-c", 'echo "$OWN"')).stdout == b"its own\n"
        await ended(second, witness)

    async def test_many_commands_at_once_do_not_mix(self, local: LocalHarness) -> None:
        backend, witness = await running(local)
        results = await asyncio.gather(*(run(backend, "sh", "-c", f"echo {number}") for number in range(8)))
        assert [result.stdout for result in results] == [f"{number}\n".encode() for number in range(8)]
        await ended(backend, witness)

    async def test_nothing_runs_where_nothing_runs(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        with pytest.raises(NotRunning):
            await backend.exec("never", ["true"], SECONDS, MOST)
        await backend.launch(harness.puppet("a"))
        await witness.until_running("a")
        await harness.exit("a", 0)
        await witness.until_ended("a")
        with pytest.raises(NotRunning):
            await backend.exec("a", ["true"], SECONDS, MOST)


def with_files(harness: Harness, **files: bytes) -> LaunchRequest:
    named = {name.replace("__", "/"): content for name, content in files.items()}
    return dataclasses.replace(harness.puppet("a"), files=named)


class TestFiles:
    async def test_files_are_listed_and_read_while_the_attempt_runs_and_after_its_end(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(with_files(harness, a__b=b"0123456789", c=b"c"))
        await witness.until_running("a")
        for over in (False, True):
            if over:
                await harness.exit("a", 0)
                await witness.until_ended("a")
            listing = await backend.list_files("a", "", 100)
            assert [(entry.path, entry.is_folder, entry.size) for entry in listing.entries] == [
                ("a", True, 0),
                ("c", False, 1),
            ]
            assert [entry.path for entry in (await backend.list_files("a", "a", 100)).entries] == ["a/b"]
            assert [entry.size for entry in (await backend.list_files("a", "a/b", 100)).entries] == [10]
            chunk = await backend.read_file("a", "a/b", 4, 3)
            assert (chunk.data, chunk.size) == (b"456", 10)
            assert (await backend.read_file("a", "a/b", 10, 3)).data == b""
        assert (await backend.list_files("a", "", 1)).truncated

    async def test_what_is_not_there_says_so(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        for path in ("", "x"):
            with pytest.raises(NoSuchFile):
                await backend.list_files("never", path, 10)
        await backend.launch(with_files(harness, c=b"c"))
        await witness.until_running("a")
        with pytest.raises(NoSuchFile, match=r"^nothing does not exist"):
            await backend.read_file("a", "nothing", 0, 10)
        with pytest.raises(NoSuchFile, match=r"^nothing does not exist"):
            await backend.list_files("a", "nothing", 10)
        await harness.exit("a", 0)
        await witness.until_ended("a")

    async def test_forgotten_files_are_gone(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(with_files(harness, c=b"c"))
        await witness.until_running("a")
        await harness.exit("a", 0)
        await witness.until_ended("a")
        await backend.forget("a")
        with pytest.raises(NoSuchFile, match="gone with its attempt's work directory"):
            await backend.read_file("a", "c", 0, 10)
        if isinstance(harness, LocalHarness):
            assert not (harness.state_dir / "attempts/a").exists()

    async def test_a_path_out_of_the_work_directory_is_refused(self, local: LocalHarness) -> None:
        backend, witness = await local.open()
        await backend.launch(with_files(local, c=b"c"))
        await witness.until_running("a")
        for path in ("../attempt.json", "/etc/passwd", "x/../../y"):
            with pytest.raises(InvalidArgument, match="no path below the work directory"):
                await backend.read_file("a", path, 0, 10)
            with pytest.raises(InvalidArgument, match="no path below the work directory"):
                await backend.list_files("a", path, 10)
        await local.exit("a", 0)
        await witness.until_ended("a")

    async def test_links_that_a_task_planted_lead_nowhere(self, local: LocalHarness) -> None:
        backend, witness = await running(
            local, "sh", "-c", "ln -s /etc/passwd pw; ln -s /etc etc; mkfifo pipe; echo x > f; echo up; exec sleep 1000"
        )
        assert [entry.path for entry in (await backend.list_files("a", "", 10)).entries] == ["f"]
        for path in ("pw", "etc/passwd", "pipe"):
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(NoSuchFile):
                    await backend.read_file("a", path, 0, 10)
        await ended(backend, witness)

    async def test_a_task_that_moves_its_whole_work_directory_away_leads_nowhere(
        self, local: LocalHarness, tmp_path: Path
    ) -> None:
        (tmp_path / "secret").write_text("secret")
        backend, witness = await running(
            local, "sh", "-c", f'mv "$IRIS_WORKDIR" ../old; ln -s {tmp_path} "$IRIS_WORKDIR"; echo up; exec sleep 1000'
        )
        with pytest.raises(NoSuchFile):
            await backend.read_file("a", "secret", 0, 10)
        with pytest.raises(NoSuchFile):
            await backend.list_files("a", "", 10)
        await ended(backend, witness)
