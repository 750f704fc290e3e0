"""The demo from the first process to the last: start, play, and leave nothing behind."""

import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from iris_fed.cli.demo.clusters import DemoCluster, introduce, make_clusters
from iris_fed.cli.demo.scenes import SCENES, Play
from iris_fed.cli.demo.stage import Failed, Stage
from iris_fed.cli.demo.sweep import sweep
from iris_fed.cli.terminal import say
from iris_fed.errors import IrisFedError

GUARDIAN_LIMIT_S = 30.0


@dataclass(slots=True)
class Outcome:
    """`played`: every scene was gone through; `failures` are what was not so."""

    played: bool = False
    failures: list[str] = field(default_factory=list)


async def perform(outcome: Outcome, *, stay: bool) -> None:
    """Play every scene; with `stay` the clusters then stay up until the task is cancelled.

    SIGTERM and SIGHUP cancel it as Ctrl+C does. Raises Unavailable when a controller does not come up.
    """
    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    assert this is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, this.cancel)
    async with (
        _guarded_directory() as directory,
        _running_clusters(directory) as (hub, gpu_lab),
        hub.client() as client,
    ):
        stage = Stage(client, failures=outcome.failures)
        await _play(Play(stage, hub, gpu_lab, directory))
        outcome.played = True
        if stay:
            _invite(hub, gpu_lab)
            await asyncio.Event().wait()


@asynccontextmanager
async def _guarded_directory() -> AsyncIterator[Path]:
    """A fresh directory that goes, with every process of the demo, whatever becomes of this one."""
    directory = await asyncio.to_thread(lambda: Path(tempfile.mkdtemp(prefix="iris-fed-demo-")).resolve())
    guardian = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "iris_fed.cli.demo.sweep", str(directory)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield directory
    finally:
        survivors = await asyncio.to_thread(sweep, directory)
        if survivors:
            say(f"these processes could not be ended: {', '.join(map(str, survivors))}")
        await asyncio.to_thread(shutil.rmtree, directory, True)
        if guardian.stdin is not None:
            guardian.stdin.close()
        await asyncio.wait_for(guardian.wait(), GUARDIAN_LIMIT_S)


@asynccontextmanager
async def _running_clusters(directory: Path) -> AsyncIterator[tuple[DemoCluster, DemoCluster]]:
    hub, gpu_lab = await asyncio.to_thread(make_clusters, directory)
    try:
        print(f"Starting two clusters on this machine, with temporary state in {directory}", flush=True)
        await gpu_lab.start()
        introduce(hub, gpu_lab)
        await hub.start()
        print(f"   gpu-lab  {gpu_lab.url}  8 H100, declared")
        print(f"   hub      {hub.url}  CPU only; its peer is gpu-lab", flush=True)
        yield hub, gpu_lab
    finally:
        await asyncio.gather(hub.stop(), gpu_lab.stop(), return_exceptions=True)


async def _play(play: Play) -> None:
    stage = play.stage
    for number, (title, scene) in enumerate(SCENES, 1):
        stage.scene(number, title)
        try:
            await scene(play)
        except (Failed, IrisFedError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            stage.failures.append(f"{title}: {reason}")
            stage.tell(f"FAIL  {reason}")
    stage.print_records()
    print("\n" + "\n".join(f"FAIL  {failure}" for failure in stage.failures) or "")
    print("Not everything went as it should." if stage.failures else "Everything went as it should.", flush=True)


def _invite(hub: DemoCluster, gpu_lab: DemoCluster) -> None:
    print(
        f"\nThe clusters stay up until Ctrl+C: hub {hub.url}, gpu-lab {gpu_lab.url}. Try in another terminal:\n\n"
        f"  export IRIS_FED_CONTROLLER={hub.url} IRIS_FED_TOKEN_FILE={hub.token_file}\n"
        "  iris-fed job run --gpu H100x2 -- sh -c 'echo I see GPUs $CUDA_VISIBLE_DEVICES'\n"
        "  iris-fed job list\n"
        "  iris-fed peer list\n",
        flush=True,
    )
