"""Jobs of which everything has ended here, until they have ended in Slurm too. Pure.

A result lies where the task itself may write: by its own word an attempt may be over while its job runs on.
"""

from collections.abc import Collection, Iterable

from iris_fed.backends.slurm.parse import SlurmJob

PATIENCE_S = 10.0
"""An honest job is over a moment after its last result; what is left after this long is ended, and again."""


class Lingering:
    """Times are the loop's, in seconds."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._has_asked = False

    @property
    def names(self) -> Collection[str]:
        return self._since.keys()

    def add(self, job: str, now_s: float) -> None:
        self._since.setdefault(job, now_s)

    def may_run(self, job: str) -> bool:
        """Whether Slurm may still run it, for all we know."""
        return not self._has_asked or job in self._since

    def take(self, alive: Iterable[SlurmJob], known: Collection[str], asked_s: float, now_s: float) -> list[str]:
        """What the queue said at `asked_s`: `alive` are its jobs of which nothing lives here. Those of `known`
        names are ours. Gives the ids of those that must be ended."""
        self._has_asked = True
        ours = {job.name: job for job in alive if job.name in known}
        for name, since_s in list(self._since.items()):
            if name not in ours and asked_s > since_s:
                del self._since[name]
        doomed = []
        for name, job in ours.items():
            if now_s - self._since.setdefault(name, now_s) >= PATIENCE_S:
                self._since[name] = now_s
                doomed.append(job.job_id)
        return doomed
