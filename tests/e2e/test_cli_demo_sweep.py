"""The demo's way out, against real processes."""

import asyncio
import os
import sys
from pathlib import Path

import psutil
import pytest

from iris_fed.cli.demo.sweep import processes_of, sweep

LIMIT_S = 30.0
# Ignores SIGTERM, starts a grandchild that has forgotten its environment, and says both pids.
STUBBORN_TASK = "trap '' TERM; env -i sleep 300 & echo $$ $!; wait; sleep 300"


async def _start_task(directory: Path) -> tuple[asyncio.subprocess.Process, list[int]]:
    work = directory / "state" / "work"
    work.mkdir(parents=True)
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", STUBBORN_TASK),
        env={**os.environ, "IRIS_WORKDIR": str(work)},
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    return process, [int(word) for word in (await process.stdout.readline()).split()]


async def test_a_stubborn_task_and_what_it_started_are_gone_after_the_sweep(tmp_path: Path) -> None:
    process, pids = await _start_task(tmp_path)
    assert {one.pid for one in processes_of(tmp_path)} == set(pids)
    assert await asyncio.to_thread(sweep, tmp_path) == []
    await process.wait()
    assert processes_of(tmp_path) == []


async def test_a_bystander_in_the_directory_is_left_alone(tmp_path: Path) -> None:
    bystander = await asyncio.create_subprocess_exec("sleep", "300", cwd=tmp_path)
    try:
        await asyncio.to_thread(sweep, tmp_path)
        assert psutil.Process(bystander.pid).status() != psutil.STATUS_ZOMBIE
    finally:
        bystander.kill()
        await bystander.wait()


@pytest.mark.timeout(60)
async def test_the_guardian_sweeps_and_tidies_up_once_the_demo_is_gone(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    process, _ = await _start_task(directory)
    guardian = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "iris_fed.cli.demo.sweep", str(directory)), stdin=asyncio.subprocess.PIPE
    )
    assert guardian.stdin is not None
    guardian.stdin.close()
    async with asyncio.timeout(LIMIT_S):
        assert await guardian.wait() == 0
        await process.wait()
    assert not directory.exists()
