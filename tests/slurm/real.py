"""A real Slurm on this machine: plain processes of a temporary directory, several nodes, all on loopback.

`munged`, `slurmctld` and a `slurmd` a node. Its GPUs are device files without a device.
"""

import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scancel", "scontrol", "srun", "sacct")
START_LIMIT_S = 60.0
STOP_LIMIT_S = 20.0
COMMAND_LIMIT_S = 45.0
POLL_S = 0.05
NVIDIA_MAJOR = 195

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmctldAddr=127.0.0.1
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=64
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
MessageTimeout=5
MailProg=/bin/true
GresTypes=gpu
ReturnToService=2
KillWait=5
SlurmdTimeout=60
MpiDefault=none
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine to be; memory in MiB."""

    name: str
    cpus: int = 8
    memory: int = 8192
    h100: int = 0
    feature: str = ""


@dataclass(slots=True)
class Slurm:
    folder: Path
    nodes: Sequence[Node]
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        """For whoever uses it."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self) -> None:
        self._write()
        key, seed = self.folder / "munge.key", self.folder / "munge.seed"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        files = ("socket", "munge.sock"), ("pid-file", "munged.pid"), ("log-file", "munged.log")
        words = [f"--{option}={self.folder / name}" for option, name in files]
        self._begin("munged", "munged", "-F", "--force", f"--key-file={key}", f"--seed-file={seed}", *words)
        poll((self.folder / "munge.sock").exists, "munged listens")
        self.start_controller()
        for node in self.nodes:
            self.start_node(node.name)
        poll(lambda: self.states() == {node.name: "idle" for node in self.nodes}, "all nodes are idle", START_LIMIT_S)

    def start_controller(self) -> None:
        self._begin("slurmctld", "slurmctld", "-D")
        poll(lambda: self.ask("scontrol", "ping", check=False).returncode == 0, "slurmctld answers", START_LIMIT_S)

    def start_node(self, name: str) -> None:
        (self.folder / f"spool-{name}").mkdir(exist_ok=True)
        self._begin(name, "slurmd", "-D", "-N", name)

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """A daemon, by its pid; nodes are named as themselves."""
        process = self.daemons.pop(name)
        process.send_signal(number)
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_LIMIT_S)

    def stop(self) -> None:
        """Jobs first, daemons then; whatever else of it lives is ended by its pid."""
        if "slurmctld" in self.daemons:
            self.empty()
        for name in [*(node.name for node in self.nodes), "slurmctld", "munged"]:
            if name in self.daemons:
                self.end(name)
        for process in self.processes():
            process.kill()
        for process in self.processes():
            process.wait(STOP_LIMIT_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, *argv: str, check: bool = True, text: str = "") -> "subprocess.CompletedProcess[str]":
        """One of its commands."""
        return subprocess.run(
            argv,
            env=os.environ | self.variables,
            input=text,
            capture_output=True,
            text=True,
            timeout=COMMAND_LIMIT_S,
            check=check,
        )

    def empty(self) -> None:
        """End all jobs, whoever's they are."""
        if active := self.active():
            self.ask("scancel", *active, check=False)
        poll(lambda: not self.active(), "no job is left", STOP_LIMIT_S)

    def states(self) -> dict[str, str]:
        lines = self.ask("sinfo", "-h", "-N", "-o", "%N %T", check=False).stdout.split("\n")
        return dict(line.split() for line in lines if line.strip())

    def active(self) -> list[str]:
        """Ids of jobs that wait or hold machines."""
        return self.ask("squeue", "-h", "-a", "-o", "%i", check=False).stdout.split()

    def job_ids(self, name: str) -> list[str]:
        """Of all jobs that ever bore this name, as far as Slurm remembers."""
        return self.ask("squeue", "-h", "-a", "-t", "all", "-n", name, "-o", "%i").stdout.split()

    def processes(self) -> list[psutil.Process]:
        """What bears its folder's name in its command line or environment."""
        found = []
        for process in psutil.process_iter():
            try:
                words = [*process.cmdline(), *process.environ().values()]
            except psutil.Error:
                continue
            if process.pid != os.getpid() and any(str(self.folder) in word for word in words):
                found.append(process)
        return [one for one in found if one.is_running() and one.status() != psutil.STATUS_ZOMBIE and not _is_us(one)]

    def _begin(self, name: str, *argv: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            self.daemons[name] = subprocess.Popen(
                argv, env=os.environ | self.variables, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def _write(self) -> None:
        host = socket.gethostname().partition(".")[0]
        lines = [CONFIGURATION.format(host=host, port=free_port(), folder=self.folder)]
        gres = []
        for number, node in enumerate(self.nodes):
            gpus = f" Gres=gpu:h100:{node.h100}" if node.h100 else ""
            feature = f" Feature={node.feature}" if node.feature else ""
            lines.append(
                f"NodeName={node.name} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs={node.cpus} "
                f"RealMemory={node.memory}{gpus}{feature}"
            )
            if node.h100:
                devices = self.folder / "devices" / node.name
                devices.mkdir(parents=True)
                for index in range(node.h100):
                    os.mknod(
                        devices / f"gpu{index}", 0o600 | stat.S_IFCHR, os.makedev(NVIDIA_MAJOR, 16 * number + index)
                    )
                gres.append(f"NodeName={node.name} Name=gpu Type=h100 File={devices}/gpu[0-{node.h100 - 1}]")
        names = ",".join(node.name for node in self.nodes)
        lines.append(f"PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE State=UP")
        (self.folder / "slurm.conf").write_text("\n".join(lines) + "\n")
        (self.folder / "gres.conf").write_text("\n".join(gres) + "\n")
        (self.folder / "state").mkdir()


def lacking() -> str:
    """Why no Slurm can be had here, '' = it can."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=search_path()) is None]
    if missing:
        return f"Slurm is not installed ({', '.join(missing)}): apt-get install munge slurmctld slurmd slurm-client"
    return "" if os.geteuid() == 0 else "a Slurm of our own needs root: it makes device files"


def search_path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


@contextmanager
def running_slurm(nodes: Sequence[Node]) -> Iterator[Slurm]:
    """Without Slurm the test is skipped, where everything must be there (CI) it fails."""
    if reason := lacking():
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)
    slurm = Slurm(folder, nodes)
    with overlaid({"PATH": search_path(), **slurm.variables}):
        try:
            slurm.start()
            yield slurm
        finally:
            slurm.stop()


@contextmanager
def overlaid(variables: Mapping[str, str]) -> Iterator[None]:
    """This process has these variables meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def poll(look: Callable[[], object], what: str, limit_s: float = 45.0) -> None:
    deadline = time.monotonic() + limit_s
    while not look():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        time.sleep(POLL_S)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _is_us(process: psutil.Process) -> bool:
    """The test itself, its parents and its siblings have the variables as well."""
    own = psutil.Process()
    family = {own.pid, *(parent.pid for parent in own.parents())}
    return process.pid in family or not any("slurm" in word or "munge" in word for word in process.cmdline())
