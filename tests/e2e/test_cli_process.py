"""The command as a process: what it leaves on its streams, and its exit code."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.command import COMMAND, clean_environment

UNREACHABLE = "http://127.0.0.1:1"
RUNS = 4


async def _run(*arguments: str, config_home: Path) -> tuple[int | None, bytes, bytes]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "iris_fed.cli", *arguments),
        env={**os.environ, "XDG_CONFIG_HOME": str(config_home)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode, out, err


async def test_the_exit_code_is_the_commands_own_every_time(tmp_path: Path) -> None:
    """The transport's threads may still be at work when the command is done."""
    listing = ("job", "list", "--controller", UNREACHABLE)
    ends = await asyncio.gather(*(_run(*listing, config_home=tmp_path) for _ in range(RUNS)))
    assert [code for code, _, _ in ends] == [125] * RUNS
    assert {err for _, _, err in ends} == {
        f"iris-fed: cannot reach the controller at {UNREACHABLE}: connection refused; is it running?\n".encode()
    }


async def test_a_traceback_is_shown_only_to_whoever_asks_for_it(tmp_path: Path) -> None:
    _, _, plain = await _run("config", "check", "missing.yaml", config_home=tmp_path)
    _, _, debugged = await _run("--debug", "config", "check", "missing.yaml", config_home=tmp_path)
    assert b"Traceback" not in plain
    assert b"Traceback" in debugged
    assert plain in debugged


async def test_help_needs_neither_the_transport_nor_the_wire(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "importtime", "-m", "iris_fed.cli", "--help"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, imported = await process.communicate()
    for heavy in (b"pyqwest", b"google.protobuf", b"pydantic", b"uvicorn", b"cryptography", b"asyncio"):
        assert heavy not in imported, heavy


@pytest.mark.parametrize("closed", ["stdin", "stdout", "stderr"])
def test_a_stream_that_is_closed_is_no_reason_to_fail(closed: str, tmp_path: Path) -> None:
    close = (
        f"import os, sys; os.close({['stdin', 'stdout', 'stderr'].index(closed)}); os.execv(sys.argv[1], sys.argv[1:])"
    )
    env = clean_environment(XDG_CONFIG_HOME=str(tmp_path))
    words = [sys.executable, "-c", close, COMMAND, "context", "list"]
    done = subprocess.run(words, env=env, capture_output=True, timeout=20, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done


def test_what_is_no_utf8_is_named() -> None:
    env = clean_environment()
    done = subprocess.run(
        [COMMAND, "job", "run", "--name", b"bad\xff", "--", "true"], env=env, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert rb"bad\udcff' is no UTF-8" in done.stderr
