"""Setup commands: one shell that runs them and then becomes the task."""

import dataclasses
import os
from pathlib import Path

import pytest

from iris_fed.backends.base import Backend, EndKind, LaunchRequest
from iris_fed.backends.local.backend import LocalBackend
from iris_fed.backends.posix.setup import setup_marker
from tests.conformance.harness import PATIENCE_S, Harness, LocalHarness, Witness, request

PAGE = 1 << 20
MARK = b"setup-done"


def set_up(
    uid: str, *commands: str, argv: tuple[str, ...] = ("true",), timeout_ms: int | None = None,
    setup_timeout_ms: int | None = None, env: dict[str, str] | None = None,
) -> LaunchRequest:  # fmt: skip
    asked = request(uid, *argv, env=env, timeout_ms=timeout_ms)
    return dataclasses.replace(asked, setup=commands, setup_timeout_ms=setup_timeout_ms)


async def ran(local: LocalHarness, asked: LaunchRequest) -> tuple[Witness, bytes]:
    """What became of it, and its whole log."""
    backend, witness = await local.open()
    await backend.launch(asked)
    await witness.until_ended(asked.attempt_uid)
    return witness, await log_of(backend, asked.attempt_uid)


async def log_of(backend: Backend, uid: str) -> bytes:
    page = await backend.read_log(uid, 0, PAGE)
    return b"".join(line.data for line in page.lines)


async def until_said(backend: Backend, uid: str, words: bytes) -> bytes:
    offset, said = 0, b""
    while words not in said:
        assert await backend.wait_log(uid, offset, PATIENCE_S)
        page = await backend.read_log(uid, offset, PAGE)
        said += b"".join(line.data for line in page.lines)
        offset = page.next_offset
        assert not page.complete or words in said, said
    return said


def gate(folder: Path, name: str) -> str:
    """A command that waits until somebody opens the gate."""
    os.mkfifo(folder / name)
    return f"read -r _ < {folder / name}"


def open_gate(folder: Path, name: str) -> None:
    (folder / name).write_text("go\n")


async def test_commands_run_in_one_shell_before_the_task_in_sections_of_their_own(local: LocalHarness) -> None:
    asked = set_up(
        "a", "mkdir sub; cd sub; export GREETING='hello you'", 'echo "$GREETING" > words; LOCAL=1',
        argv=("sh", "-c", 'pwd; cat words; echo "$GREETING/${LOCAL-none}/$0/$*"', "zero", "one", "two words"),
    )  # fmt: skip
    witness, log = await ran(local, asked)
    lines = log.decode().splitlines()
    assert lines[:3] == [
        "--- setup 1/2: mkdir sub; cd sub; export GREETING='hello you'",
        '--- setup 2/2: echo "$GREETING" > words; LOCAL=1',
        "--- run",
    ]
    assert lines[3].endswith("/work/sub")
    assert lines[4:] == ["hello you", "hello you/none/zero/one two words"]
    assert (witness.ended["a"].end.kind, witness.ended["a"].end.exit_code) == (EndKind.EXITED, 0)
    assert MARK not in log


async def test_an_attempt_is_building_until_its_setup_is_done(harness: Harness) -> None:
    backend, witness = await harness.open()
    asked = harness.puppet("a")
    setup = gate(harness.folder, "gate") if isinstance(harness, LocalHarness) else "make"
    await backend.launch(dataclasses.replace(asked, setup=(setup,)))
    building = await witness.until_building("a")
    assert "a" not in witness.running
    assert harness.runs("a") == (0 if isinstance(harness, LocalHarness) else 1)
    await harness.finish_setup("a")
    running = await witness.until_running("a")
    assert running.started_ms >= building.started_ms
    await harness.exit("a", 0)
    await witness.until_ended("a")
    told = [seen for seen in witness.order["a"] if seen not in ("Sampled", "Queued")]
    assert told == ["Building", "Running", "Ended"]


FAILING = [
    (("exit 7",), 7),
    (("true", "false", "echo never"), 1),
    (("(exit 9)", "echo never"), 9),
    (("return 3", "echo never"), 3),
    (("no-such-program-at-all", "echo never"), 127),
    (("echo 'unterminated", "echo never"), 2),
    (("if true; then", "fi; echo never"), 2),
]


async def test_the_first_command_that_fails_ends_the_attempt_with_its_code(warden: LocalHarness) -> None:
    backend, witness = await warden.open()
    for number, (commands, code) in enumerate(FAILING):
        uid = f"a{number}"
        await backend.launch(set_up(uid, *commands, argv=("echo", "never")))
        end = (await witness.until_ended(uid)).end
        assert (end.kind, end.exit_code) == (EndKind.EXITED, code), commands
        assert end.message == f"its setup failed with exit code {code}"
        assert b"never\n" not in (await log_of(backend, uid)).replace(b": echo never\n", b"")
        assert uid not in witness.running


LEAVING = ["exit 0", "exec true", "exec >/dev/null; exit"]


async def test_a_setup_that_ends_the_shell_well_is_no_success_since_the_command_never_began(
    warden: LocalHarness,
) -> None:
    backend, witness = await warden.open()
    for number, command in enumerate(LEAVING):
        uid = f"a{number}"
        await backend.launch(set_up(uid, command, argv=("echo", "began")))
        end = (await witness.until_ended(uid)).end
        assert (end.kind, end.exit_code) == (EndKind.NOT_STARTED, 1), command
        assert "the command never began" in end.message
        assert b"began" not in await log_of(backend, uid)


HARMLESS = [
    "set -- other things",
    "shift 2>/dev/null || true",
    "exec > setup.log 2>&1; echo hidden",
    "exec >/dev/null",
    "cat <<END\nunterminated",
    "echo a \\",
    "set +e; false; true",
    "trap 'echo trapped' EXIT",
    "sleep 1000 &",
    "# only a comment",
    "",
]


async def test_no_command_changes_what_the_task_is_or_when_it_begins(warden: LocalHarness) -> None:
    words = ("sh", "-c", 'echo "$*" > "$IRIS_WORKDIR/words"', "sh", "my", "own words")
    backend, witness = await warden.open()
    for number, command in enumerate(HARMLESS):
        uid = f"a{number}"
        await backend.launch(set_up(uid, command, argv=words))
        assert (await witness.until_ended(uid)).end.exit_code == 0, command
        assert (await backend.read_file(uid, "words", 0, 100)).data == b"my own words\n"
        assert MARK not in await log_of(backend, uid)


IMITATIONS = ["\\036iris-fed:setup-done:", "\\036iris-fed:setup-done:a\\n", "\\036", "\\036iris"]


async def test_what_only_looks_like_the_marker_is_output_and_the_task_does_not_begin_early(
    warden: LocalHarness,
) -> None:
    backend, witness = await warden.open()
    for number, shown in enumerate(IMITATIONS):
        uid, name = f"a{number}", f"gate-{number}"
        await backend.launch(set_up(uid, f"printf '{shown}'; echo; {gate(warden.folder, name)}"))
        imitation = shown.replace("\\036", "\x1e").replace("\\n", "\n").encode()
        await witness.until_building(uid)
        said = await until_said(backend, uid, imitation + b"\n")
        assert uid not in witness.running
        open_gate(warden.folder, name)
        await witness.until_ended(uid)
        assert await log_of(backend, uid) == said + b"--- run\n"


async def test_the_marker_is_never_seen_however_it_is_split_over_reads(local: LocalHarness) -> None:
    """The launcher reads at most 256 KiB at once: the marker comes at and around each such boundary."""
    backend, witness = await local.open()
    size = 256 * 1024
    for number, before in enumerate(range(size - 60, size + 1, 12)):
        uid = f"a{number}"
        command = f"head -c {before - len(f'--- setup 1/1: {number}')} /dev/zero | tr '\\0' x; echo # {number}"
        await backend.launch(set_up(uid, command))
        await witness.until_ended(uid)
        raw = b"".join(
            path.read_bytes() for path in sorted((local.state_dir / "attempts" / uid).glob("output*")) if path.is_file()
        )
        assert MARK not in raw
        assert witness.ended[uid].end.exit_code == 0


async def test_a_setup_that_takes_too_long_is_ended_with_its_own_words(local: LocalHarness) -> None:
    asked = set_up("a", "sleep 1000", argv=("echo", "never"), setup_timeout_ms=100)
    witness, log = await ran(local, asked)
    end = witness.ended["a"].end
    assert (end.kind, end.message) == (EndKind.TIMED_OUT, "its setup took longer than its limit of 0.1 s")
    assert b"never" not in log


async def test_without_a_limit_of_its_own_a_setup_has_the_tasks(local: LocalHarness) -> None:
    witness, _ = await ran(local, set_up("a", "sleep 1000", timeout_ms=100))
    assert witness.ended["a"].end.message == "its setup took longer than its limit of 0.1 s"


async def test_the_tasks_own_time_begins_when_its_setup_is_done(local: LocalHarness) -> None:
    backend, witness = await local.open()
    commands = (gate(local.folder, "gate"),)
    await backend.launch(set_up("a", *commands, argv=("sleep", "1000"), timeout_ms=150, setup_timeout_ms=60_000))
    await backend.launch(request("other", "sleep", "1000", timeout_ms=300))
    # The other had twice the time and is over: this one's has not begun.
    await witness.until_ended("other")
    assert "a" not in witness.ended
    open_gate(local.folder, "gate")
    ended = await witness.until_ended("a")
    assert (ended.end.kind, ended.end.message) == (EndKind.TIMED_OUT, "ran longer than its limit of 0.15 s")
    assert ended.finished_ms - witness.running["a"].started_ms >= 140


async def test_an_attempt_killed_during_its_setup_never_runs(local: LocalHarness) -> None:
    backend, witness = await local.open()
    await backend.launch(set_up("a", "trap '' TERM; sleep 1000; sleep 1000", argv=("echo", "never")))
    await witness.until_building("a")
    await backend.kill("a")
    ended = await witness.until_ended("a")
    assert ended.end.kind is EndKind.KILLED
    assert b"never" not in await log_of(backend, "a")


async def test_a_controller_that_comes_back_finds_it_building_and_sees_it_run(local: LocalHarness) -> None:
    first, seen = await local.open()
    await first.launch(set_up("a", gate(local.folder, "gate"), argv=("sleep", "1000")))
    await seen.until_building("a")
    await local.crash(first)
    second, witness = await local.open()
    recovery = await second.recover({"a"})
    assert [type(one).__name__ for one in recovery.observations] == ["Building"]
    open_gate(local.folder, "gate")
    await witness.until_running("a")
    await second.kill("a")
    await witness.until_ended("a")


async def test_a_controller_that_was_away_when_setup_ended_finds_it_running(local: LocalHarness) -> None:
    first, seen = await local.open()
    await first.launch(set_up("a", gate(local.folder, "gate"), argv=("sh", "-c", "echo up; exec sleep 1000")))
    await seen.until_building("a")
    await local.crash(first)
    open_gate(local.folder, "gate")
    second, witness = await local.open()
    await until_said(second, "a", b"up\n")
    await witness.until_running("a")
    assert "Building" not in witness.order["a"][1:]
    await second.kill("a")
    await witness.until_ended("a")


async def test_a_long_setup_is_no_trouble(local: LocalHarness) -> None:
    """Longer than one argument of a program may be."""
    comment = "# " + "x" * 200_000
    witness, _ = await ran(local, set_up("a", comment + "\nexport LONG=1", argv=("sh", "-c", 'exit "$((LONG + 41))"')))
    assert witness.ended["a"].end.exit_code == 42


async def test_a_bundle_and_files_are_there_before_the_setup(local: LocalHarness, tmp_path: Path) -> None:
    asked = set_up("a", "cat conf/a > copy")
    backend, witness = await local.open()
    asked = dataclasses.replace(asked, files={"conf/a": b"content"})
    await backend.launch(asked)
    assert (await witness.until_ended("a")).end.exit_code == 0
    assert (await backend.read_file("a", "copy", 0, 100)).data == b"content"


@pytest.mark.parametrize("files", [{"a": b"1", "a/b": b"2"}, {"n" * 300: b"x"}])
async def test_files_that_cannot_be_written_end_the_attempt_in_words_and_leave_nothing(
    local: LocalHarness, files: dict[str, bytes]
) -> None:
    backend, witness = await local.open()
    assert isinstance(backend, LocalBackend)
    asked = request("a", "true")
    asked = dataclasses.replace(asked, files=files)
    await backend.launch(asked)
    end = (await witness.until_ended("a")).end
    assert (end.kind, end.exit_code) == (EndKind.NOT_STARTED, 126)
    assert end.message.startswith("its work directory cannot be filled: ")
    assert not (local.state_dir / "attempts/a").exists()


async def test_a_launch_that_is_repeated_does_not_write_into_a_running_task(local: LocalHarness) -> None:
    backend, witness = await local.open()
    # Stands for a controller that lost the launcher's answer: it does not know the attempt.
    unaware, _ = await local.open()
    asked = request("a", "sh", "-c", "echo mine > f; echo done; exec sleep 1000")
    asked = dataclasses.replace(asked, files={"f": b"theirs"})
    await backend.launch(asked)
    await until_said(backend, "a", b"done\n")
    await unaware.launch(asked)
    assert (await backend.read_file("a", "f", 0, 100)).data == b"mine\n"
    await backend.kill("a")
    await witness.until_ended("a")


def test_two_tokens_have_two_markers() -> None:
    assert setup_marker("one") != setup_marker("two")
