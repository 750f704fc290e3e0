"""`iris-fed demo`, as a new user runs it, and every way out of it."""

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil

from iris_fed.cli.demo.sweep import sweep
from tests.e2e.clusters import processes_naming
from tests.e2e.command import COMMAND, Running, all_at_once, clean_environment, poll

GONE_LIMIT_S = 60.0
FILE_BYTES = 40_000
"""Too little for a database."""


@contextlib.contextmanager
def _demo(temporary: Path, *, file_bytes: int | None = None) -> Iterator[Running]:
    """`demo --once` with its state below `temporary`, of which nothing may be left."""
    argv = [COMMAND, "demo", "--once"]
    if file_bytes is not None:
        argv = ["sh", "-c", f'ulimit -f {file_bytes // 512} && exec "$@"', "sh", *argv]
    try:
        with Running(argv, clean_environment(TMPDIR=str(temporary))) as demo:
            yield demo
        poll(lambda: not processes_naming(temporary), "no process of the demo is left", GONE_LIMIT_S)
        poll(lambda: not list(temporary.iterdir()), "no file of the demo is left", GONE_LIMIT_S)
    finally:
        sweep(temporary)


def _task_pid(demo: Running, scene: str) -> int:
    """The process of the scene's task, once it is shown."""
    demo.until(scene)
    return int(demo.until("runs as pid").split("runs as pid")[1].split()[0])


def test_the_demo_plays_every_scene_tells_each_jobs_time_and_leaves_nothing(tmp_path: Path) -> None:
    with _demo(tmp_path) as demo:
        ended = demo.end()
    assert (ended.code, ended.err) == (0, ""), ended.out
    assert "Everything went as it should." in ended.out
    table = ended.out[ended.out.index("SUBMIT TO END") :]
    rows = re.findall(r"^(.+?)  +(\S+) +(\w+) +(\d+) +([\d.]+m?s)$", table, re.MULTILINE)
    assert [(where, state, code) for _, where, state, code, _ in rows] == [
        ("local", "SUCCEEDED", "0"),
        ("gpu-lab/local", "SUCCEEDED", "0"),
        ("gpu-lab/local", "FAILED", "7"),
        ("gpu-lab/local", "SUCCEEDED", "0"),
        ("gpu-lab/local", "KILLED", "143"),
    ]
    assert "refused: no cluster can host this job" in ended.out


def test_the_demo_fails_when_a_job_does_not_end_as_it_should(tmp_path: Path) -> None:
    with _demo(tmp_path) as demo:
        os.kill(_task_pid(demo, "killed with -9 while a job runs"), signal.SIGKILL)
        ended = demo.end()
    assert ended.code == 1
    assert "Not everything went as it should." in ended.out
    assert re.search(r"^ +FAIL not so: ", ended.out, re.MULTILINE)


def test_the_demo_fails_with_the_reason_when_a_cluster_does_not_start(tmp_path: Path) -> None:
    with _demo(tmp_path, file_bytes=FILE_BYTES) as demo:
        ended = demo.end()
    assert ended.code == 1
    (line,) = ended.err.splitlines()
    assert line.startswith("iris-fed: gpu-lab ended at once")
    assert "controller.db" in line


def test_nothing_is_left_of_a_demo_that_is_stopped_in_the_middle(tmp_path: Path) -> None:
    def stop(number: signal.Signals) -> int:
        temporary = tmp_path / number.name
        temporary.mkdir()
        with _demo(temporary) as demo:
            pid = _task_pid(demo, "H100 job with 2 replicas")
            assert psutil.pid_exists(pid)
            demo.interrupt(number)
            code = demo.end().code
        poll(lambda: not psutil.pid_exists(pid), f"task {pid} is gone")
        return code

    assert all_at_once([partial(stop, number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)]) == [
        130,
        143,
        -9,
    ]
