"""Controllers that die, stop and come back, and what becomes of the work in their care."""

import os
import re
import signal
import stat
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.clusters import Cluster, Federation, runs
from tests.e2e.command import poll

# Writes a number every few milliseconds until it gets its cue, then what it came to.
COUNT = 'i=0; while [ ! -e "$CUE" ]; do echo $i; i=$((i+1)); sleep 0.01; done; echo last $i; exit 9'
# Daemonises twice with an empty environment, so that neither its parent nor its variables tell whose it is.
DAEMON = (
    "import os, sys, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        os.execve('/bin/sh', ['sh', '-c', 'trap \"\" TERM; echo $$ > daemon; while :; do sleep 1; done'], {})\n"
    "    os._exit(0)\n"
    "os.wait()\n"
    "while not (os.path.exists('daemon') and os.path.getsize('daemon')): time.sleep(0.01)\n"
    "print('daemon', open('daemon').read(), os.getpid(), flush=True)\n"
    "time.sleep(300)\n"
)
PROMPT_S = 3.0
"""Less than the grace: what is open is ended, not waited for."""
TAKE_MEMORY = "import os, time; block = os.urandom({megabytes} << 20); print('taken', flush=True); time.sleep(300)"


def _counted(lines: list[str]) -> int:
    """How far the task counted; every number is there once and in order."""
    *numbers, last = lines
    assert numbers == [str(number) for number in range(len(numbers))]
    assert last == f"last {len(numbers)}"
    return len(numbers)


@pytest.mark.parametrize(("where", "flags"), [("hub", []), ("lab", ["--gpu", "H100"])])
def test_a_follower_misses_and_repeats_nothing_when_controllers_are_killed(
    federation: Federation, tmp_path: Path, where: str, flags: list[str]
) -> None:
    hub = federation.hub
    runner = federation.hub if where == "hub" else federation.lab
    cue, name = tmp_path / "cue", f"survivor-{where}"
    job = hub.submit("--name", name, *flags, "-e", f"CUE={cue}", "--", "sh", "-c", COUNT)
    with hub.begin("job", "logs", "-f", job) as follower:
        assert follower.line() == "0\n"
        before = hub.attempt(job)
        for cluster in {id(one): one for one in (hub, runner)}.values():
            cluster.kill()
            cluster.start()
        cue.touch()
        rest = follower.end()
    assert rest.code == 0, rest
    assert _counted(["0", *rest.out.splitlines()]) > 10
    hub.until(job, "FAILED")
    task = hub.task(job)
    assert (task["exitCode"], [one["attemptUid"] for one in task["attempts"]]) == (9, [before["attemptUid"]])
    assert hub.run("job", "logs", job).out == "0\n" + rest.out


def test_the_same_process_goes_on_through_a_crash_and_its_end_is_learned(hub: Cluster, tmp_path: Path) -> None:
    cue = tmp_path / "cue"
    script = f'echo $$; while [ ! -e "{cue}" ]; do sleep 0.02; done; echo written meanwhile; exit 4'
    with hub.begin("job", "run", "--name", "through", "--", "sh", "-c", script) as command:
        pid = int(command.line())
        born = psutil.Process(pid).create_time()
        hub.kill()
        assert psutil.Process(pid).create_time() == born
        cue.touch()
        poll(lambda: not runs(pid), "the task has ended while no controller ran")
        hub.start()
        ended = command.end()
    assert (ended.code, ended.out) == (4, "written meanwhile\n")
    assert len(hub.task("through")["attempts"]) == 1


def test_a_stop_is_prompt_with_a_follower_and_a_long_poll_open_and_tasks_go_on(
    federation: Federation, tmp_path: Path
) -> None:
    lab, cue = federation.lab, tmp_path / "cue"
    job = lab.submit("-e", f"CUE={cue}", "--", "sh", "-c", "echo $$; " + COUNT)
    with lab.begin("job", "logs", "-f", job) as follower:
        pid = int(follower.line())
        stopped = time.monotonic()
        assert lab.stop() == 0
        assert time.monotonic() - stopped < PROMPT_S
        assert runs(pid)
        lab.start()
        cue.touch()
        _counted(follower.end().out.splitlines())
    lab.until(job, "FAILED")
    assert lab.task(job)["exitCode"] == 9
    assert "Traceback" not in lab.log


def test_an_attempt_whose_launcher_was_killed_goes_on_and_ends_without_an_exit_code(hub: Cluster) -> None:
    job = hub.submit("--name", "orphan", "--", "sh", "-c", "echo $$; exec sleep 300")
    hub.until(job, "RUNNING")
    pid = int(hub.run("job", "logs", job, "--tail", "1").out)
    (launcher,) = hub.launchers()
    launcher.kill()
    launcher.wait(5.0)
    poll(lambda: [one for one in hub.launchers() if one.pid != launcher.pid], "another launcher is there")
    assert runs(pid), "the task goes on without it"
    os.kill(pid, signal.SIGKILL)
    attempt = poll(lambda: _ended(hub.task(job)["attempts"][0]), "its attempt has ended")
    assert attempt["state"] == "TASK_STATE_WORKER_FAILED"
    assert "exit code unknown" in attempt["error"]
    assert "exitCode" not in attempt
    assert hub.run("job", "run", "--", "true").code == 0, "the next launcher works"


def _ended(attempt: dict[str, Any]) -> dict[str, Any] | None:
    return attempt if "finishedAt" in attempt else None


def test_a_cancel_on_hub_ends_even_a_daemon_on_lab(federation: Federation) -> None:
    hub = federation.hub
    with hub.begin("job", "run", "--name", "daemon", "--gpu", "H100", "--", "python3", "-c", DAEMON) as command:
        pids = [int(word) for word in re.findall(r"\d+", command.line() + command.line())]
        assert len(pids) == 2
        assert all(runs(pid) for pid in pids)
        hub.cancel("daemon")
        ended = command.end()
    assert ended.code == 143
    assert "cancelled by" in ended.err
    poll(lambda: not any(runs(pid) for pid in pids), f"{pids} are gone")


def test_memory_is_shown_with_its_peak_and_costs_the_attempt_when_exceeded(hub: Cluster) -> None:
    within = ["python3", "-c", TAKE_MEMORY.format(megabytes=60)]
    job = hub.submit("--name", "within", "--memory", "500MB", "--", *within)
    poll(lambda: _peak_mb(hub.task(job)) > 60, "60 MB are seen")
    (shown,) = re.findall(r" (\d+) MB ", hub.run("job", "describe", job).out)
    assert int(shown) > 60
    hub.cancel(job)
    beyond = hub.run("job", "run", "--memory", "50MB", "--", "python3", "-c", TAKE_MEMORY.format(megabytes=200))
    assert beyond.code == 137
    assert "over its limit of 50.0 MB" in beyond.err


def _peak_mb(task: dict[str, dict[str, str]]) -> int:
    return int(task.get("resourceUsage", {}).get("memoryPeakMb", "0"))


def test_the_state_is_its_owners_alone(hub: Cluster) -> None:
    assert stat.S_IMODE(hub.state_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE((hub.state_dir / "admin.token").stat().st_mode) == 0o600


def test_whoever_brings_no_credential_or_another_host_is_refused(hub: Cluster) -> None:
    url = f"{hub.url}/iris.cluster.ControllerService/ListJobs"
    token = {"authorization": f"Bearer {(hub.state_dir / 'admin.token').read_text().strip()}"}
    for headers, status in (({}, 401), ({**token, "host": "example.org"}, (403, 421)), (token, 200)):
        request = urllib.request.Request(url, data=b"{}", headers={"content-type": "application/json", **headers})
        try:
            with urllib.request.urlopen(request, timeout=5.0) as answer:
                found = answer.status
        except urllib.error.HTTPError as error:
            found = error.code
            error.close()
        assert found in (status if isinstance(status, tuple) else (status,))


def test_a_controller_ends_with_whoever_started_it(hub: Cluster) -> None:
    assert hub.process is not None
    assert hub.process.stdin is not None
    hub.process.stdin.close()
    assert hub.collect() == 0
    hub.start()


def test_a_launcher_that_hangs_keeps_no_controller_from_starting(hub: Cluster) -> None:
    through = hub.submit("--name", "through", "--", "sleep", "300")
    hub.until(through, "RUNNING")
    uid = hub.attempt(through)["attemptUid"]
    (launcher,) = hub.launchers()
    hub.kill()
    launcher.suspend()
    try:
        hub.start()
        assert "note: backend local cannot be reached: " in _readyz(hub)
        later = hub.submit("--name", "later", "--", "true")
        reason = poll(lambda: _job(hub, later).get("pendingReason", ""), "it says what it waits for")
        assert reason.startswith("waiting for backend local, which cannot be reached: ")
    finally:
        launcher.resume()
    poll(lambda: hub.state(later) == "SUCCEEDED", "what waited runs", 40.0)
    assert hub.attempt(through)["attemptUid"] == uid
    assert hub.state(through) == "RUNNING"
    assert _readyz(hub) == "ok\n"
    hub.cancel(through)
    hub.until(through, "KILLED")


def _job(cluster: Cluster, job: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.call("GetJobStatus", jobId=job)["job"]
    return found


def _readyz(cluster: Cluster) -> str:
    with urllib.request.urlopen(f"{cluster.url}/readyz", timeout=5.0) as answer:
        return str(answer.read().decode())
