"""The scenes, each a claim about the federation that is played and checked."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

from iris_fed.cli import formats
from iris_fed.cli.demo.clusters import DemoCluster
from iris_fed.cli.demo.stage import Failed, FollowedJob, Record, Stage
from iris_fed.cli.job_list import now_ms
from iris_fed.client import Client
from iris_fed.client.request import command_job, equals
from iris_fed.errors import FailedPrecondition
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2

T = TypeVar("T")

OUTAGE_LIMIT_S = 30.0
POLL_S = 0.1
PINNED_EXIT_CODE = 7
SAY_PID = 'echo "replica $IRIS_TASK_INDEX of $IRIS_NUM_TASKS runs as pid $$ with GPU ${CUDA_VISIBLE_DEVICES:-none}"'
WAIT_FOR_CUE = 'while [ ! -e "$CUE" ]; do sleep 0.05; done'
"""The task stays until the demo has looked at it."""


@dataclass(slots=True)
class Play:
    """What the scenes work with."""

    stage: Stage
    hub: DemoCluster
    gpu_lab: DemoCluster
    directory: Path

    def cue(self, name: str) -> Path:
        return self.directory / f"cue-{name}"


async def cpu_job_stays(play: Play) -> None:
    request = command_job(["sh", "-c", "echo hello from $IRIS_TASK_ID"], name="hello")
    async with play.stage.job("a CPU job", request) as job:
        status, tasks = await job.ended()
        play.stage.claim("it ran on hub itself", status.peer_status == job_pb2.PEER_STATUS_NONE, status.cluster)
        play.stage.claim("exit code 0", [task.exit_code for task in tasks] == [0], status.error)
    play.stage.claim("its line was read on hub", any("hello from" in line for line in job.lines), job.lines)
    async with play.gpu_lab.client() as client:
        elsewhere = [other.job_id async for other in client.list_jobs()]
    play.stage.claim("gpu-lab has not heard of it", not elsewhere, elsewhere)


async def gpu_job_crosses(play: Play) -> None:
    cue = play.cue("crossing")
    script = f"{SAY_PID}; {WAIT_FOR_CUE}; echo done"
    request = command_job(["sh", "-c", script], name="train", env={"CUE": str(cue)}, gpu=("h100", 4), replicas=2)
    async with play.stage.job("an H100 job, 2 replicas", request) as job:
        pids = await job.pids(2)
        at_home = [pid for pid in pids if _runs_below(pid, play.gpu_lab.directory)]
        play.stage.claim("both are real processes of gpu-lab", sorted(at_home) == sorted(pids), pids)
        cue.touch()
        status, tasks = await job.ended()
        play.stage.claim("hub shows where it ran", status.cluster == "gpu-lab", status.cluster)
        play.stage.claim("hub shows both exit codes", [task.exit_code for task in tasks] == [0, 0], status.error)
    play.stage.claim("hub shows the lines of both", sum("done" in line for line in job.lines) == 2, job.lines)


async def pinned_job_goes_where_told(play: Play) -> None:
    request = command_job(["sh", "-c", f"echo pinned; exit {PINNED_EXIT_CODE}"], name="pinned")
    request.constraints.append(equals("cluster", "gpu-lab"))
    async with play.stage.job("pinned by --target-cluster", request) as job:
        status, tasks = await job.ended()
        play.stage.claim("it ran on gpu-lab, though hub could have", status.cluster == "gpu-lab", status.cluster)
        codes = [task.exit_code for task in tasks]
        play.stage.claim(f"its exit code {PINNED_EXIT_CODE} came back", codes == [PINNED_EXIT_CODE], codes)


async def job_survives_a_crash(play: Play) -> None:
    cue = play.cue("crash")
    script = f"{SAY_PID}; {WAIT_FOR_CUE}; echo still here"
    request = command_job(["sh", "-c", script], name="survivor", env={"CUE": str(cue)}, gpu=("h100", 1))
    async with play.stage.job("one that outlives a crash", request) as job:
        (pid,) = await job.pids(1)
        before = await _attempt(play.stage.hub, job)
        await play.gpu_lab.kill()
        play.stage.tell("gpu-lab's controller was killed with -9")
        try:
            peer = await _until_peer(play, reachable=False)
            age = formats.age(now_ms(), peer.last_contact_ms)
            play.stage.claim(f"hub shows it unreachable, last contact {age} ago", peer.last_contact_ms > 0)
            play.stage.claim(f"the job's process {pid} lives on", _runs_below(pid, play.gpu_lab.directory))
        finally:
            await play.gpu_lab.start()
        await _until_peer(play, reachable=True)
        play.stage.tell("gpu-lab's controller is back")
        play.stage.claim("the same process goes on", _runs_below(pid, play.gpu_lab.directory))
        cue.touch()
        _, tasks = await job.ended()
        play.stage.claim("it ended with exit code 0", [task.exit_code for task in tasks] == [0], tasks)
        after = await _attempt(play.stage.hub, job)
        play.stage.claim("it is still the same attempt", before == after, (before, after))
    play.stage.claim("it ran once", sum("pid" in line for line in job.lines) == 1, job.lines)
    play.stage.claim("its last line arrived", "still here" in job.lines, job.lines)


async def cancel_reaches_the_process(play: Play) -> None:
    request = command_job(["sh", "-c", f"{SAY_PID}; sleep 600"], name="endless", gpu=("h100", 8))
    async with play.stage.job("one that is cancelled", request) as job:
        (pid,) = await job.pids(1)
        play.stage.claim(f"process {pid} runs on gpu-lab", _runs_below(pid, play.gpu_lab.directory))
        await play.stage.hub.cancel(job.id)
        play.stage.tell("cancelled on hub")
        status, _ = await job.ended()
        play.stage.claim("hub shows it KILLED", status.state == job_pb2.JOB_STATE_KILLED, status.state)

        async def gone() -> bool | None:
            return None if _runs_below(pid, play.gpu_lab.directory) else True

        play.stage.claim(f"process {pid} is gone", await _poll(gone, f"process {pid} is gone"))


async def impossible_job_is_refused(play: Play) -> None:
    request = command_job(["true"], name="impossible", gpu=("b200", 8))
    try:
        job_id = await play.stage.hub.submit(request)
    except FailedPrecondition as error:
        play.stage.claim(f"refused: {error.message}", "b200" in error.message.lower(), error.message)
        play.stage.records.append(Record("one that nobody can host", "-", "refused", "-", None))
    else:
        raise Failed(f"not so: a job for B200 GPUs is refused (it was accepted as {job_id})")


SCENES: tuple[tuple[str, Callable[[Play], Awaitable[None]]], ...] = (
    ("A CPU job stays on hub", cpu_job_stays),
    ("An H100 job with 2 replicas, which hub cannot host, runs on gpu-lab and is seen on hub", gpu_job_crosses),
    ("A job pinned with --target-cluster gpu-lab goes there", pinned_job_goes_where_told),
    ("gpu-lab is killed with -9 while a job runs there", job_survives_a_crash),
    ("A job is cancelled on hub while it runs on gpu-lab", cancel_reaches_the_process),
    ("A job that nobody can host is refused with the reason", impossible_job_is_refused),
)


def _runs_below(pid: int, directory: Path) -> bool:
    """Whether the process lives and works in the directory."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.cwd().startswith(f"{directory}/")
    except psutil.Error:
        return False


async def _attempt(hub: Client, job: FollowedJob) -> tuple[int, str]:
    """The number of attempts of its only task, and the last one's uid, once hub knows of one.

    A line of output may be there first: it is relayed, while tasks are mirrored.
    """

    async def look() -> tuple[int, str] | None:
        (task,) = (await hub.tasks(job.id)).tasks or [None]
        return (len(task.attempts), task.attempts[-1].attempt_uid) if task is not None and task.attempts else None

    return await _poll(look, f"hub knows of an attempt of {job.id}")


async def _until_peer(play: Play, *, reachable: bool) -> Controller.PeerSummary:
    async def look() -> Controller.PeerSummary | None:
        (peer,) = (await play.stage.hub.peers()).peers
        return peer if peer.reachable is reachable else None

    return await _poll(look, f"hub sees gpu-lab {'again' if reachable else 'as unreachable'}")


async def _poll(look: Callable[[], Awaitable[T | None]], claim: str) -> T:
    deadline = time.monotonic() + OUTAGE_LIMIT_S
    while time.monotonic() < deadline:
        found = await look()
        if found is not None:
            return found
        await asyncio.sleep(POLL_S)
    raise Failed(f"not within {OUTAGE_LIMIT_S:g} s: {claim}")
