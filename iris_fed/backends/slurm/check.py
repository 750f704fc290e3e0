"""What a site lacks before anything can be submitted to it: each finding one sentence, with what to do."""

import asyncio
import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from iris_fed.backends.base import BackendUnavailable
from iris_fed.backends.slurm.engine import Engine
from iris_fed.backends.slurm.parse import SlurmNode
from iris_fed.backends.slurm.run import CommandRefused, Commands
from iris_fed.backends.slurm.settings import SlurmSettings

PROGRAMS = ("sbatch", "squeue", "sinfo", "scancel", "srun")
OLDEST_PYTHON = (3, 10)


@dataclass(frozen=True, slots=True)
class Finding:
    """`problem` '' = it is well, and `about` says what was found."""

    about: str
    problem: str = ""


async def check_site(settings: SlurmSettings) -> list[Finding]:
    """In the order in which one would mend it; nothing is submitted, but for a trial that Slurm does not keep."""
    found = [*_programs(settings), _shared_dir(settings.shared_dir), _user(settings)]
    if any(finding.problem for finding in found[: len(PROGRAMS)]):
        return found
    try:
        nodes = await Engine(settings).nodes()
    except BackendUnavailable as error:
        return [*found, Finding("Slurm", f"does not answer: {error}")]
    found.append(_nodes(settings, nodes))
    commands = Commands(settings.command_timeout_s, settings.bin_dir)
    found.append(await _queue(settings))
    if settings.accounting:
        found.append(await _accounting(settings, commands))
    found += [await _trial(settings, commands, partition) for partition in settings.partitions or ("",)]
    return [*found, await _python(settings, commands)]


def _programs(settings: SlurmSettings) -> list[Finding]:
    path = f"{settings.bin_dir}:{os.environ.get('PATH', os.defpath)}" if settings.bin_dir else None
    wanted = (*PROGRAMS, "sacct") if settings.accounting else PROGRAMS
    found = {name: shutil.which(name, path=path) for name in wanted}
    return [
        Finding(name, "" if where else "is not on PATH: install Slurm's client programs, or set bin_dir")
        for name, where in found.items()
    ]


def _shared_dir(folder: Path) -> Finding:
    about = f"shared_dir {folder}"
    if not folder.is_dir():
        return Finding(about, "is no directory here: make it, on a file system that every node mounts at this path")
    trial = folder / f".iris-fed-check-{os.getpid()}"
    try:
        trial.write_text("trial")
        trial.rename(trial.with_suffix(".moved"))
    except OSError as error:
        return Finding(about, f"cannot be written by this user: {error.strerror}")
    finally:
        for path in (trial, trial.with_suffix(".moved")):
            with contextlib.suppress(OSError):
                path.unlink()
    return Finding(about)


def _user(settings: SlurmSettings) -> Finding:
    if settings.run_as is not None and os.geteuid() != 0:
        return Finding("run_as", "needs a controller that runs as root")
    return Finding("user")


def _nodes(settings: SlurmSettings, nodes: tuple[SlurmNode, ...]) -> Finding:
    usable = [node for node in nodes if node.usable]
    where = f"partitions {', '.join(settings.partitions)}" if settings.partitions else "the cluster"
    if not nodes:
        return Finding(where, "has no nodes: is the partition's name right?")
    if not usable:
        return Finding(where, f"has no usable node: all {len(nodes)} are down, drained or reserved")
    gpus = sorted({settings.variant(kind) or "untyped" for node in usable for kind in node.gpus})
    return Finding(f"{where}: {len(usable)} of {len(nodes)} nodes usable, GPUs: {', '.join(gpus) or 'none'}")


async def _queue(settings: SlurmSettings) -> Finding:
    try:
        jobs = await Engine(settings).jobs()
    except BackendUnavailable as error:
        return Finding("squeue", str(error))
    return Finding(f"squeue: {len(jobs)} jobs of iris-fed")


async def _accounting(settings: SlurmSettings, commands: Commands) -> Finding:
    try:
        await Engine(settings).accounted(["iris-fed-check"])
    except BackendUnavailable as error:
        return Finding("sacct", f"{error}; without an accounting database set `accounting: false`")
    return Finding("sacct")


async def _trial(settings: SlurmSettings, commands: Commands, partition: str) -> Finding:
    """`--test-only`: Slurm says whether it would take the job."""
    about = f"a job in partition {partition}" if partition else "a job in the default partition"
    words = ["sbatch", "--test-only", "--job-name=iris-fed-check", f"--chdir={settings.shared_dir}"]
    chosen = (("partition", (partition,)), ("account", settings.accounts), ("qos", settings.qos))
    words += [f"--{option}={values[0]}" for option, values in chosen if values and values[0]]
    words += [f"--reservation={settings.reservations[0]}"] if settings.reservations else []
    words += [f"--constraint={settings.features}"] if settings.features else []
    try:
        await commands.output([*words, *settings.sbatch_args], b"#!/bin/sh\ntrue\n")
    except CommandRefused as error:
        return Finding(about, f"would be refused: {error}")
    except BackendUnavailable as error:
        return Finding(about, str(error))
    return Finding(about)


async def _python(settings: SlurmSettings, commands: Commands) -> Finding:
    """Of this machine: the nodes' are taken to be alike."""
    oldest = ".".join(map(str, OLDEST_PYTHON))
    script = f"import sys; sys.exit(sys.version_info < {OLDEST_PYTHON})"
    try:
        done = await commands.execute([settings.python, "-I", "-S", "-c", script], settings.command_timeout_s, 4_096)
    except OSError as error:
        return Finding(f"python {settings.python}", f"cannot be run here: {error.strerror}; set `python`")
    problem = "" if done.code == 0 else f"is older than {oldest}: set `python` to a newer one that the nodes have"
    return Finding(f"python {settings.python}", problem)


def run_check(settings: SlurmSettings) -> list[Finding]:
    """`check_site`, for those without a loop."""
    return asyncio.run(check_site(settings))
