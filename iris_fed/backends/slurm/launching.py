"""From a request to a job that Slurm has taken: laid out on the shared directory, then submitted, once."""

import asyncio
import secrets
from collections.abc import Sequence

from iris_fed.backends.base import AttemptEnd, BackendUnavailable, EndKind, LaunchRequest, Owner
from iris_fed.backends.posix import files
from iris_fed.backends.posix.accounts import NoAccount, account_of
from iris_fed.backends.posix.setup import SCRIPT, setup_marker, setup_script
from iris_fed.backends.posix.spawn import Account
from iris_fed.backends.slurm.commands import Submission, script
from iris_fed.backends.slurm.engine import Engine
from iris_fed.backends.slurm.entries import Entry
from iris_fed.backends.slurm.rounds import Rounds
from iris_fed.backends.slurm.run import CommandRefused
from iris_fed.backends.slurm.settings import SlurmSettings
from iris_fed.backends.slurm.shared import Contents, Kept, Shared
from iris_fed.model.files import UnsafeBundle

_SECRETS_VARIABLE = "IRIS_SECRETS_DIR"


class Launching:
    """`owner` and `keeper` (the program on the nodes) are known from the backend's start on."""

    def __init__(self, settings: SlurmSettings, engine: Engine, shared: Shared, rounds: Rounds) -> None:
        self._settings = settings
        self._engine = engine
        self._shared = shared
        self._rounds = rounds
        self.owner = Owner("", "")
        self.keeper = ""

    def kept(self, request: LaunchRequest, job: str, members: int, variant: str) -> Kept:
        asked = request.resources
        return Kept(
            uid=request.attempt_uid,
            task_id=request.task_id,
            cluster=self.owner.cluster,
            database_id=self.owner.database_id,
            job=job,
            members=members,
            cpu_millicores=asked.cpu_millicores,
            memory_bytes=asked.memory_bytes,
            chips=asked.chips,
            variant=variant,
        )

    async def run(self, entries: Sequence[Entry], requests: Sequence[LaunchRequest]) -> None:
        """One job of all of them. What Slurm, or the place, will never take ends here. Raises BackendUnavailable:
        then the same may be asked again, and nothing is started twice."""
        try:
            await self._submit(entries, requests)
        except (CommandRefused, UnsafeBundle, NoAccount) as error:
            for entry in entries:
                await self._rounds.finish(entry, AttemptEnd(EndKind.NOT_STARTED, 126, message=_refusal(error)))
        except OSError as error:
            raise BackendUnavailable(f"{requests[0].task_id} could not be laid out: {error}") from error

    def is_laid_out(self, uids: Sequence[str]) -> bool:
        """Whether all members are: what is not was never submitted. Blocks."""
        return all(self._shared.kept(uid) is not None for uid in uids)

    def take_back(self, uids: Sequence[str]) -> None:
        """They were never laid out. Blocks."""
        for uid in uids:
            self._shared.take_back(uid)

    async def _submit(self, entries: Sequence[Entry], requests: Sequence[LaunchRequest]) -> None:
        account = await asyncio.to_thread(account_of, requests[0].owner, self._settings.run_as)
        in_doubt = await asyncio.to_thread(self._lay_out, entries, requests, account)
        if in_doubt and await self._found_again(entries):
            return
        if any(entry.cancelled for entry in entries):
            for entry in entries:
                await self._rounds.finish(entry, AttemptEnd(EndKind.KILLED, message="killed before it was submitted"))
            return
        cluster, database_id = entries[0].kept.cluster, entries[0].kept.database_id
        folder = str(self._shared.place(entries[0].uid))
        job = Submission(tuple(requests), cluster, database_id, folder)
        words = script(self._settings, job, self.keeper)
        job_id = await self._engine.submit(job, words, entries[0].kept.account)
        self._taken(entries, job_id)

    async def _found_again(self, entries: Sequence[Entry]) -> bool:
        """An earlier try may have reached Slurm though its answer did not reach us."""
        job = await self._engine.find(entries[0].kept.job)
        if job is None and not any(entry.began for entry in entries):
            return False
        self._taken(entries, "" if job is None else job.job_id)
        return True

    def _taken(self, entries: Sequence[Entry], job_id: str) -> None:
        now_s = asyncio.get_running_loop().time()
        for entry in entries:
            entry.job_id, entry.submitted_s = job_id or entry.job_id, now_s
        self._rounds.poke()

    def _lay_out(self, entries: Sequence[Entry], requests: Sequence[LaunchRequest], account: Account | None) -> bool:
        """Whether they were laid out before, all of them: then they may have been submitted, and stay as they are."""
        uids = [entry.uid for entry in entries]
        if self.is_laid_out(uids):
            return True
        # Before all are, nothing is submitted: what there is of a gang is laid out anew.
        self.take_back(uids)
        for entry, request in zip(entries, requests, strict=True):
            gang = uids if len(uids) > 1 and entry is entries[0] else ()
            self._shared.lay_out(entry.kept, self._contents(request, gang), account)
        return False

    def _contents(self, request: LaunchRequest, gang: Sequence[str]) -> Contents:
        settings, place = self._settings, self._shared.place(request.attempt_uid)
        argv, marker, setup = list(request.argv), "", ""
        if request.setup:
            token = secrets.token_hex(8)
            argv, marker = ["/bin/sh", str(place / SCRIPT), *argv], setup_marker(token).decode()
            setup = setup_script(request.setup, token)
        env = dict(request.env)
        if request.secret_files:
            env[_SECRETS_VARIABLE] = str(place / files.SECRETS)
        launch = {
            "argv": argv,
            "env": env,
            "marker": marker,
            "setup_timeout_ms": request.setup_timeout_ms or 0,
            "timeout_ms": request.timeout_ms or 0,
            "memory_bytes": request.resources.memory_bytes,
            "grace_s": settings.kill_grace_s,
            "output_bytes": settings.output_bytes,
            "secrets": list(request.secret_files),
            "contain": "warden",
            "record": {"task_id": request.task_id},
            "ports": list(request.ports),
            "chips": request.resources.chips,
            "address": settings.address,
            "index": int(request.env.get("IRIS_TASK_INDEX", "0")),
        }
        return Contents(request, launch, setup, gang)


def _refusal(error: Exception) -> str:
    if isinstance(error, CommandRefused):
        return f"Slurm refused it: {error}"
    if isinstance(error, UnsafeBundle):
        return f"its work directory cannot be filled: {error}"
    return str(error)
