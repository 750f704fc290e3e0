"""Real jobs for the pages to show."""

import sys
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.clusters import Cluster
from tests.e2e.command import poll

TREE = """\
import asyncio
from iris_fed.client import Client, command_job

async def main():
    async with Client.from_context() as client:
        jobs = [await client.submit(command_job(["sleep", str(s)], name=f"shard-{s}")) for s in (0, 600)]
        await client.wait_all(jobs, 600)

asyncio.run(main())
"""
COLOURS = r"\033[1mepoch 1\033[0m loss \033[31m2.31\033[0m\n\033[32msaved\033[0m checkpoint\n"
TRAINING = f"printf '{COLOURS}'; i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo step $i of 300; done; exec sleep 600"


@dataclass(frozen=True, slots=True)
class Story:
    """Names of jobs of this user's on the hub."""

    training: str = "train-llm"
    waiting: str = "evaluate"
    failed: str = "broken-import"
    wide: str = "sweep"
    tree: str = "pipeline"


def tell_story(hub: Cluster, folder: Path) -> Story:
    """One job of each kind: running on the peer, waiting, failed after a retry, of many tasks, with children."""
    story = Story()
    (folder / "tree.py").write_text(TREE)
    cores = f"{hub.call('ListBackends')['backends'][0]['largestNode']['cpuMillicores']}m"
    failing = ("sh", "-c", "echo Traceback >&2; echo \"ModuleNotFoundError: No module named 'torhc'\" >&2; exit 1")
    hub.run_all(
        _run(story.training, "--gpu", "H100x6", "--memory", "1GB", "--", "sh", "-c", TRAINING),
        _run("holder", "--cpu", cores, "--", "sleep", "600"),
        _run(story.failed, "--max-retries", "1", "--", *failing),
        _run(story.tree, "--file", str(folder / "tree.py"), "--", sys.executable, "tree.py"),
        _run(story.wide, "--replicas", "12", "--", "sh", "-c", "test $IRIS_TASK_INDEX -lt 5 || exec sleep 600"),
        _run("quick", "--", "echo", "done"),
    )
    hub.until(story.training, "RUNNING")
    hub.until("holder", "RUNNING")
    hub.submit("--name", story.waiting, "--cpu", cores, "--", "true")
    hub.until(story.failed, "FAILED")
    hub.until("quick", "SUCCEEDED")
    poll(
        lambda: hub.call("GetJobStatus", jobId=f"{_user(hub)}/{story.tree}")["job"].get("hasChildren"),
        "it has children",
    )
    return story


def end_story(hub: Cluster, story: Story) -> None:
    for job in (story.training, story.waiting, story.wide, story.tree, "holder"):
        hub.cancel(job)


def _run(name: str, *arguments: str) -> tuple[str, ...]:
    return ("job", "run", "--no-wait", "--name", name, *arguments)


def _user(hub: Cluster) -> str:
    return f"/{hub.call('GetCurrentUser')['userId']}"
