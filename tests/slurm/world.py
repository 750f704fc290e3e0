"""Backends on a real Slurm, and stand-ins for its commands that misbehave when told to."""

import asyncio
import dataclasses
import shutil
import sys
from pathlib import Path

from iris_fed.backends.base import LaunchRequest, Owner
from iris_fed.backends.slurm.backend import SlurmBackend
from iris_fed.backends.slurm.settings import SlurmSettings
from iris_fed.clock import SystemClock
from iris_fed.model.resources import Device, DeviceKind, Resources
from tests.conformance.harness import OWNER, Witness, request
from tests.slurm.real import Slurm, poll

_STAND_IN = """#!/bin/sh
# Notes each call; while there is a file `{name}.act`, that is done first, `$REAL` being the command's path.
echo "{name} $*" >> {folder}/calls
REAL={real}
if [ -e {folder}/{name}.act ]; then . {folder}/{name}.act; fi
exec $REAL "$@"
"""


class World:
    """`settings` of its backends may be changed when one is opened."""

    def __init__(self, slurm: Slurm, folder: Path) -> None:
        self.slurm = slurm
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.settings = SlurmSettings(
            shared_dir=folder / "shared",
            python=sys.executable,
            address="127.0.0.1",
            kill_grace_s=0.5,
            output_bytes=64 * 1024,
            poll_interval_s=0.5,
            capacity_interval_s=1.0,
            command_timeout_s=3.0,
            lost_after_s=2.0,
        )
        self._opened: list[tuple[SlurmBackend, Witness]] = []

    async def open(self, owner: Owner = OWNER, **changed: object) -> tuple[SlurmBackend, Witness]:
        backend = SlurmBackend(dataclasses.replace(self.settings, **changed), SystemClock())  # type: ignore[arg-type]
        await backend.start(owner)
        self._opened.append((backend, Witness(backend)))
        return self._opened[-1]

    async def crash(self, backend: SlurmBackend) -> None:
        """The controller is gone; what it had begun is brought to its end."""
        await backend.close()

    async def close(self) -> None:
        for backend, witness in self._opened:
            await witness.close()
            await backend.close()
        await asyncio.to_thread(self.slurm.empty)
        await asyncio.to_thread(poll, lambda: set(self.slurm.states().values()) == {"idle"}, "all nodes are idle")

    def stand_in(self, *names: str) -> None:
        """Backends that are opened from now on run these in the commands' place."""
        for name in names:
            path = self.bin / name
            path.write_text(_STAND_IN.format(name=name, folder=self.folder, real=shutil.which(name)))
            path.chmod(0o755)
        self.settings = dataclasses.replace(self.settings, bin_dir=str(self.bin))

    def act(self, name: str, script: str) -> None:
        """What the stand-in does first; '' = nothing."""
        path = self.folder / f"{name}.act"
        if script:
            path.with_suffix(".new").write_text(script + "\n")
            path.with_suffix(".new").rename(path)
        else:
            path.unlink(missing_ok=True)

    def calls(self, name: str) -> int:
        calls = self.folder / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        return sum(line.startswith(f"{name} ") for line in lines)

    def sleeper(self, uid: str, resources: Resources | None = None, index: int = 0) -> LaunchRequest:
        """Notes that it runs, and goes on until it is ended."""
        return self.task(uid, "exec sleep 1000", resources, index)

    def task(self, uid: str, script: str, resources: Resources | None = None, index: int = 0) -> LaunchRequest:
        """Notes that it runs, and then does what is told."""
        whole = f'echo {uid} >> {self.folder}/runs; exec sh -c "$0"'
        env = {"IRIS_TASK_INDEX": str(index)}
        return request(uid, "sh", "-c", whole, script, env=env, resources=resources or Resources(100, 64 << 20))

    def runs(self, uid: str) -> int:
        runs = self.folder / "runs"
        return runs.read_text().split().count(uid) if runs.exists() else 0

    async def fill(self) -> str:
        """A job of somebody else on every machine; its id."""
        words = ("sbatch", "--parsable", "--exclusive", "--nodes=3", "--mem=0", "--output=/dev/null")
        done = await asyncio.to_thread(self.slurm.ask, *words, text="#!/bin/sh\nsleep 1000\n")
        await asyncio.to_thread(poll, lambda: set(self.slurm.states().values()) == {"allocated"}, "all are taken")
        return done.stdout.strip()


def h100(count: int, cpus: int = 1) -> Resources:
    return Resources(cpus * 1000, 64 << 20, device=Device(DeviceKind.GPU, "h100", count))
