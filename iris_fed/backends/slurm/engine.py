"""Slurm as the backend speaks to it: a few commands, each of them for many jobs at once where it can be."""

import asyncio
import os
from collections.abc import Collection, Sequence

from iris_fed.backends.base import BackendUnavailable
from iris_fed.backends.slurm import commands, parse
from iris_fed.backends.slurm.commands import Submission
from iris_fed.backends.slurm.parse import Garbled, SlurmJob, SlurmNode
from iris_fed.backends.slurm.run import CommandRefused, Commands, Finished
from iris_fed.backends.slurm.settings import SlurmSettings
from iris_fed.backends.slurm.words import ACTIVE_STATES

_GATHER_S = 0.05
_MAX_CANCELLED_AT_ONCE = 500
_MAX_ACCOUNTED_AT_ONCE = 500


class Engine:
    """Every call raises BackendUnavailable when Slurm cannot be asked now."""

    def __init__(self, settings: SlurmSettings) -> None:
        self._settings = settings
        self._commands = Commands(settings.command_timeout_s, settings.bin_dir)
        self._doomed: set[str] = set()
        self._cancelling: asyncio.Task[None] | None = None

    async def submit(self, job: Submission, script: str, account: str) -> str:
        """The new job's id. Raises CommandRefused."""
        argv = self._for_user(account, commands.sbatch(self._settings, job))
        try:
            return parse.parse_job_id(await self._commands.output(argv, script.encode()))
        except Garbled as error:
            raise BackendUnavailable(str(error)) from None

    async def jobs(self, names: Collection[str] = ()) -> list[SlurmJob]:
        """All with our tag, or of these names, that Slurm still knows; the newest of each name, one that lives
        before one that ended."""
        user = "" if self._settings.submit_command else str(os.geteuid())
        return await self._ask_queue(commands.squeue(self._settings, user=user), names)

    async def find(self, name: str) -> SlurmJob | None:
        found = await self._ask_queue(commands.squeue(self._settings, name=name), {name})
        return next((job for job in found if job.name == name), None)

    async def nodes(self) -> tuple[SlurmNode, ...]:
        try:
            return parse.parse_nodes(await self._ask(commands.sinfo(self._settings)))
        except Garbled as error:
            raise BackendUnavailable(str(error)) from None

    async def accounted(self, names: Sequence[str]) -> dict[str, str]:
        """The last states that the accounting knows, by name."""
        try:
            return dict(parse.parse_accounting(await self._ask(commands.sacct(names[:_MAX_ACCOUNTED_AT_ONCE]))))
        except Garbled as error:
            raise BackendUnavailable(str(error)) from None

    async def cancel(self, job_id: str) -> None:
        """Those that come together go with one command. One that is over is no matter."""
        self._doomed.add(job_id)
        if self._cancelling is None or self._cancelling.done():
            self._cancelling = asyncio.get_running_loop().create_task(self._cancel_all())
        await asyncio.shield(self._cancelling)
        if job_id in self._doomed:
            await self.cancel(job_id)

    async def exec(self, argv: Sequence[str], account: str, timeout_s: float, max_bytes: int) -> Finished:
        """Raises OSError."""
        return await self._commands.execute(self._for_user(account, argv), timeout_s, max_bytes)

    async def close(self) -> None:
        if self._cancelling is not None:
            await asyncio.gather(self._cancelling, return_exceptions=True)

    async def _cancel_all(self) -> None:
        await asyncio.sleep(_GATHER_S)
        batch = sorted(self._doomed)[:_MAX_CANCELLED_AT_ONCE]
        self._doomed.difference_update(batch)
        try:
            await self._commands.output(commands.scancel(batch))
        except CommandRefused:
            # Some of them were over already, which it says of each; it goes on with the others.
            return

    async def _ask_queue(self, argv: Sequence[str], names: Collection[str]) -> list[SlurmJob]:
        text = await self._ask(argv)
        newest: dict[str, SlurmJob] = {}
        try:
            for job in parse.parse_queue(text, names):
                known = newest.get(job.name)
                if known is None or _rank(job) > _rank(known):
                    newest[job.name] = job
        except Garbled as error:
            raise BackendUnavailable(str(error)) from None
        return list(newest.values())

    async def _ask(self, argv: Sequence[str]) -> str:
        try:
            return await self._commands.output(argv)
        except CommandRefused as error:
            raise BackendUnavailable(f"{argv[0]}: {error}") from None

    def _for_user(self, account: str, argv: Sequence[str]) -> list[str]:
        return [*(word.replace("{user}", account) for word in self._settings.submit_command), *argv]


def _rank(job: SlurmJob) -> tuple[bool, int]:
    digits = job.job_id.partition("_")[0].partition("+")[0]
    return job.state in ACTIVE_STATES, int(digits) if digits.isdecimal() else 0
