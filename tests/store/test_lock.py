"""One controller per state directory, however the last one ended."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from iris_fed.errors import ConfigError
from iris_fed.store.lock import StateLock, prepare_state_dir

HOLDER = """
import sys, pathlib
from iris_fed.store.lock import StateLock
lock = StateLock(pathlib.Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_with_the_first_ones_pid_until_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == b"held\n"
            with pytest.raises(ConfigError, match=rf"in use by another controller \(process {holder.pid}\)"):
                StateLock(tmp_path)
        finally:
            holder.send_signal(signal.SIGKILL)
            holder.wait()
    lock = StateLock(tmp_path)
    assert f"(process {os.getpid()})" in refusal(tmp_path)
    lock.release()


def test_a_released_lock_can_be_taken_again_and_released_twice(tmp_path: Path) -> None:
    lock = StateLock(tmp_path)
    lock.release()
    lock.release()
    second = StateLock(tmp_path)
    refusal(tmp_path)
    second.release()


def test_the_state_directory_is_made_private(tmp_path: Path) -> None:
    state = tmp_path / "deep" / "state"
    prepare_state_dir(state)
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    state.chmod(0o755)
    prepare_state_dir(state)
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_a_state_directory_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot use the state directory"):
        prepare_state_dir(tmp_path / "file" / "state")


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as refused:
        StateLock(path)
    return refused.value.message
