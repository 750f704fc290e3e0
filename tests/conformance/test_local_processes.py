"""What only real processes can show: nothing survives its attempt, nothing is lost with a controller."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from iris_fed.backends.base import Backend, EndKind, Running
from iris_fed.backends.local import launcher
from iris_fed.backends.local.backend import LocalBackend
from iris_fed.backends.local.client import wait_for_exit
from iris_fed.backends.local.settings import LocalSettings
from iris_fed.backends.posix import files, procfs
from iris_fed.clock import SystemClock
from iris_fed.model.resources import Device, DeviceKind, Resources
from tests.conformance.harness import OWNER, PATIENCE_S, LocalHarness, Witness, request

PAGE = 1 << 20

DAEMON = """
import os, sys
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.set_inheritable(write, True)
        os.chdir("/")
        os.execve("/bin/sh", ["sh", "-c", f"echo $$ >&{write}; exec {write}>&- >/dev/null 2>&1; exec sleep 1000"], {})
    os._exit(0)
os.close(write)
print(os.read(read, 20).decode().strip(), flush=True)
"""

CHAIN = """
import os, sys, time
print("chain", flush=True)
while True:
    if os.fork():
        time.sleep(0.0005)
        os._exit(0)
    os.setsid()
"""

CHILDREN = """
import os, subprocess, sys
subprocess.Popen(["sleep", "1000"], start_new_session=True)
subprocess.Popen(["sleep", "1000"])
print("started", flush=True)
sys.stdin.read()
import signal; signal.pause()
"""


async def python(
    harness: LocalHarness, uid: str, program: str, *words: str, **asked: object
) -> tuple[LocalBackend, Witness]:
    backend, witness = await harness.open()
    assert isinstance(backend, LocalBackend)
    argv = (sys.executable, "-I", "-S", "-c", program, str(harness.folder), *words)
    await backend.launch(request(uid, *argv, **asked))  # type: ignore[arg-type]
    return backend, witness


async def first_words(backend: Backend, uid: str) -> str:
    assert await backend.wait_log(uid, 0, PATIENCE_S)
    return (await backend.read_log(uid, 0, PAGE)).lines[0].data.decode().strip()


def of_attempts(harness: LocalHarness) -> list[int]:
    """What lives of this world beside its launcher."""
    return [pid for pid in harness.processes() if b"launcher.py" not in Path(f"/proc/{pid}/cmdline").read_bytes()]


class TestWholeTrees:
    async def test_a_daemon_without_parent_session_and_environment_ends_with_its_attempt(
        self, local: LocalHarness
    ) -> None:
        backend, witness = await python(local, "a", DAEMON)
        ended = await witness.until_ended("a")
        daemon = int(await first_words(backend, "a"))
        assert (ended.end.kind, ended.end.exit_code) == (EndKind.EXITED, 0)
        assert not procfs.is_running(daemon)

    async def test_a_chain_that_forks_faster_than_one_looks_is_gone_after_its_main_process(
        self, local: LocalHarness
    ) -> None:
        _, witness = await python(local, "a", CHAIN)
        await witness.until_ended("a")
        assert of_attempts(local) == []

    async def test_a_kill_reaches_children_in_other_sessions(self, local: LocalHarness) -> None:
        backend, witness = await python(local, "a", CHILDREN)
        assert await first_words(backend, "a") == "started"
        await backend.kill("a")
        assert (await witness.until_ended("a")).end.kind is EndKind.KILLED
        assert of_attempts(local) == []

    async def test_one_attempts_end_spares_the_other(self, local: LocalHarness) -> None:
        backend, witness = await python(local, "a", CHILDREN)
        await backend.launch(local.puppet("b"))
        await first_words(backend, "a")
        await witness.until_running("b")
        await backend.kill("a")
        await witness.until_ended("a")
        await local.exit("b", 6)
        assert (await witness.until_ended("b")).end.exit_code == 6

    async def test_an_attempt_over_its_memory_is_killed_for_it(self, local: LocalHarness) -> None:
        hog = "import signal; held = bytearray(96 << 20); signal.pause()"
        _, witness = await python(local, "a", hog, resources=Resources(memory_bytes=32 << 20))
        ended = await witness.until_ended("a")
        assert ended.end.kind is EndKind.OUT_OF_MEMORY
        assert "limit of 32.0 MiB" in ended.end.message
        assert ended.usage.memory_peak_bytes > 96 << 20

    async def test_use_is_measured_over_the_whole_tree(self, local: LocalHarness) -> None:
        _, witness = await python(local, "a", CHILDREN)
        usage = (await witness.until_sampled("a")).usage
        assert usage.process_count == 3
        assert usage.memory_bytes > 1 << 20


class TestEnvironment:
    async def test_a_task_sees_what_it_was_given_and_nothing_of_its_controller(
        self, local: LocalHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CONTROLLER_SECRET", "hidden")
        backend, witness = await local.open()
        dump = (sys.executable, "-I", "-c", "import os, json; print(json.dumps([dict(os.environ), os.getcwd()]))")
        asked = Resources(device=Device(DeviceKind.GPU, "h100", 2))
        await backend.launch(request("a", *dump, env={"MINE": "1"}, resources=asked, ports=("http-2",)))
        await backend.launch(request("b", *dump))
        running = await witness.until_running("a")
        for uid in ("a", "b"):
            await witness.until_ended(uid)
        (line,) = (await backend.read_log("a", 0, PAGE)).lines
        env, cwd = json.loads(line.data)
        assert "CONTROLLER_SECRET" not in env
        assert env["MINE"] == "1"
        assert env["CUDA_VISIBLE_DEVICES"] == "0,1"
        assert env["IRIS_PORT_HTTP_2"] == str(running.ports["http-2"])
        assert env["IRIS_ADVERTISE_HOST"] == "127.0.0.1"
        assert env["IRIS_WORKDIR"] == cwd == str(local.state_dir / "attempts" / "a" / "work")
        assert {"PATH", "HOME", "LANG"} <= env.keys()
        (line,) = (await backend.read_log("b", 0, PAGE)).lines
        assert json.loads(line.data)[0]["CUDA_VISIBLE_DEVICES"] == ""

    async def test_a_file_that_may_not_run_is_named(self, local: LocalHarness) -> None:
        plain = local.folder / "plain"
        plain.write_text("#!/bin/sh\n")
        plain.chmod(0o644)
        backend, witness = await local.open()
        await backend.launch(request("a", str(plain)))
        end = (await witness.until_ended("a")).end
        assert (end.kind, end.exit_code) == (EndKind.NOT_STARTED, 126)
        assert str(plain) in end.message

    async def test_a_script_without_an_interpreter_line_is_the_shells(self, local: LocalHarness) -> None:
        tools = local.folder / "tools"
        tools.mkdir()
        (tools / "greet").write_text('echo "hello $1"\n')
        (tools / "greet").chmod(0o755)
        backend, witness = await local.open()
        await backend.launch(request("a", "greet", "you", env={"PATH": f"{tools}:/usr/bin:/bin"}))
        await witness.until_ended("a")
        assert await first_words(backend, "a") == "hello you"

    async def test_a_uid_that_is_no_plain_name_is_refused(self, local: LocalHarness) -> None:
        backend, _ = await local.open()
        with pytest.raises(ValueError, match="uid"):
            await backend.launch(request("../a", "true"))


class TestControllers:
    async def test_a_controller_killed_with_9_leaves_its_attempt_running_for_the_next(
        self, local: LocalHarness
    ) -> None:
        asked = local.puppet("a")
        controller = textwrap.dedent(f"""
            import asyncio
            from pathlib import Path
            from iris_fed.backends.base import LaunchRequest, Owner
            from iris_fed.backends.local.backend import LocalBackend
            from iris_fed.backends.local.settings import LocalSettings
            from iris_fed.clock import SystemClock
            from iris_fed.model.resources import Resources

            async def main():
                backend = LocalBackend(LocalSettings(), Path({str(local.state_dir)!r}), SystemClock())
                await backend.start(Owner("hub", "db-1"))
                await backend.launch(LaunchRequest("a", "/t/0", {asked.argv!r}, {dict(asked.env)!r}, Resources()))
                print("launched", flush=True)
                await asyncio.Event().wait()

            asyncio.run(main())
        """)
        root = str(Path(__file__).parents[2])
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", controller, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": root}
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"launched\n"
        process.kill()
        await process.wait()
        await local.say("a", b"nobody listens\n")
        backend, witness = await local.open()
        (state,) = (await backend.recover(["a"])).observations
        assert isinstance(state, Running)
        await local.exit("a", 3)
        assert (await witness.until_ended("a")).end.exit_code == 3
        assert (await backend.read_log("a", 0, PAGE)).lines[0].data == b"nobody listens\n"
        assert local.runs("a") == 1


class TestLostLaunchers:
    async def test_an_attempt_outlives_its_launcher_and_ends_as_lost(self, local: LocalHarness) -> None:
        backend, witness = await local.open()
        await backend.launch(local.puppet("a"))
        await witness.until_running("a")
        os.kill(local.launcher_pid(), signal.SIGKILL)
        await backend.launch(local.puppet("b"))
        await local.exit("b", 4)
        assert (await witness.until_ended("b")).end.exit_code == 4
        (state,) = (await backend.recover(["a"])).observations
        assert isinstance(state, Running)
        await local.exit("a", 0)
        end = (await witness.until_ended("a")).end
        assert (end.kind, end.exit_code) == (EndKind.LOST, None)
        assert "what kept it ended too" in end.message

    async def test_the_next_controller_follows_an_orphan_too(self, local: LocalHarness) -> None:
        first, before = await local.open()
        await first.launch(local.puppet("a"))
        await before.until_running("a")
        await first.close()
        os.kill(pid := local.launcher_pid(), signal.SIGKILL)
        await asyncio.to_thread(wait_for_exit, pid, PATIENCE_S)
        backend, witness = await local.open()
        await witness.until_running("a")
        waiting = asyncio.create_task(backend.wait_log("a", 0, PATIENCE_S))
        await local.exit("a", 0)
        assert (await witness.until_ended("a")).end.kind is EndKind.LOST
        assert await waiting

    async def test_an_orphan_can_be_killed_with_all_its_children(self, local: LocalHarness) -> None:
        backend, witness = await python(local, "a", CHILDREN)
        await first_words(backend, "a")
        os.kill(pid := local.launcher_pid(), signal.SIGKILL)
        await asyncio.to_thread(wait_for_exit, pid, PATIENCE_S)
        await backend.launch(local.puppet("b"))
        await backend.kill("a")
        assert (await witness.until_ended("a")).end.kind is EndKind.KILLED
        await local.exit("b", 0)
        await witness.until_ended("b")
        assert of_attempts(local) == []

    async def test_an_orphans_time_limit_still_holds(self, local: LocalHarness) -> None:
        backend, witness = await local.open()
        await backend.launch(local.puppet("a", timeout_ms=1000))
        await witness.until_running("a")
        os.kill(local.launcher_pid(), signal.SIGKILL)
        assert (await witness.until_ended("a")).end.kind is EndKind.TIMED_OUT

    async def test_a_launch_that_the_launcher_did_not_survive_is_not_repeated(self, local: LocalHarness) -> None:
        first, before = await local.open()
        await first.launch(local.puppet("a"))
        await before.until_running("a")
        await local.exit("a", 0)
        await before.until_ended("a")
        await first.close()
        folder = local.state_dir / files.ATTEMPTS / "a"
        (folder / files.PROCESS).unlink()
        (folder / files.EXIT).unlink()
        backend, witness = await local.open()
        assert (await witness.until_ended("a")).end.kind is EndKind.LOST
        await backend.launch(local.puppet("a"))
        assert local.runs("a") == 1

    async def test_a_process_that_its_launcher_had_no_time_to_note_is_found(self, local: LocalHarness) -> None:
        first, before = await local.open()
        await first.launch(local.puppet("a"))
        await before.until_running("a")
        await first.close()
        os.kill(pid := local.launcher_pid(), signal.SIGKILL)
        await asyncio.to_thread(wait_for_exit, pid, PATIENCE_S)
        (local.state_dir / files.ATTEMPTS / "a" / files.PROCESS).unlink()
        backend, witness = await local.open()
        await backend.launch(local.puppet("a"))
        await witness.until_running("a")
        await local.exit("a", 0)
        await witness.until_ended("a")
        assert local.runs("a") == 1

    async def test_a_pid_that_is_somebody_elses_by_now_is_left_alone(self, local: LocalHarness) -> None:
        first, before = await local.open()
        await first.launch(local.puppet("a"))
        await before.until_running("a")
        await local.exit("a", 0)
        await before.until_ended("a")
        await first.close()
        folder = local.state_dir / files.ATTEMPTS / "a"
        process = json.loads((folder / files.PROCESS).read_text())
        ours = {name: os.getpid() for name in ("pid", "warden") if name in process}
        (folder / files.PROCESS).write_text(json.dumps({**process, **ours}))
        (folder / files.EXIT).unlink()
        backend, witness = await local.open()
        assert (await witness.until_ended("a")).end.kind is EndKind.LOST
        await backend.kill("a")

    async def test_an_attempt_whose_record_the_disk_lost_is_lost_not_repeated(self, local: LocalHarness) -> None:
        folder = local.state_dir / files.ATTEMPTS / "a"
        folder.mkdir(parents=True)
        (folder / files.ATTEMPT).touch()
        backend, witness = await local.open()
        await backend.launch(local.puppet("a"))
        assert (await witness.until_ended("a")).end.kind is EndKind.LOST
        assert local.runs("a") == 0

    async def test_a_launcher_asked_to_stop_ends_its_attempts_and_says_so(self, local: LocalHarness) -> None:
        backend, witness = await local.open()
        await backend.launch(local.puppet("a"))
        await witness.until_running("a")
        os.kill(local.launcher_pid(), signal.SIGTERM)
        end = (await witness.until_ended("a")).end
        assert end.kind is EndKind.LOST
        assert "stopped" in end.message

    async def test_a_supervisor_killed_by_its_task_takes_its_processes_with_it(self, warden: LocalHarness) -> None:
        backend, witness = await python(warden, "a", CHILDREN)
        await first_words(backend, "a")
        process = json.loads((warden.state_dir / files.ATTEMPTS / "a" / files.PROCESS).read_text())
        os.kill(process["warden"], signal.SIGKILL)
        assert (await witness.until_ended("a")).end.kind is EndKind.LOST
        assert of_attempts(warden) == []


class TestLauncher:
    async def test_a_second_launcher_of_the_same_directory_leaves_at_once(self, local: LocalHarness) -> None:
        await local.open()
        argv = [sys.executable, "-I", "-S", str(Path(launcher.__file__)), str(local.state_dir)]
        assert (await asyncio.to_thread(subprocess.run, argv, check=False)).returncode == 75

    async def test_a_launcher_leaves_when_nobody_needs_it(self, tmp_path: Path) -> None:
        backend = LocalBackend(LocalSettings(idle_s=0.0), tmp_path / "state", SystemClock())
        await backend.start(OWNER)
        harness = LocalHarness(tmp_path, LocalSettings())
        pid = harness.launcher_pid()
        await backend.close()
        assert await asyncio.to_thread(wait_for_exit, pid, PATIENCE_S)

    async def test_a_state_directory_may_lie_deeper_than_a_socket_can_be_named(self, tmp_path: Path) -> None:
        backend = LocalBackend(LocalSettings(), tmp_path / ("deep" * 30) / "state", SystemClock())
        await backend.start(OWNER)
        await backend.destroy()

    async def test_destroy_ends_what_runs(self, local: LocalHarness) -> None:
        backend, witness = await local.open()
        assert isinstance(backend, LocalBackend)
        await backend.launch(local.puppet("a", ignores_term=True))
        await witness.until_running("a")
        await backend.destroy()
        assert local.processes() == []
