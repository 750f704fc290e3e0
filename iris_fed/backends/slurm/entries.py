"""What the backend knows of each attempt that has not ended, and how news of it becomes observations."""

import asyncio
from dataclasses import dataclass, field
from typing import Literal

from iris_fed.backends.base import AttemptEnd, Building, Ended, Observation, Queued, Running, Sampled
from iris_fed.backends.slurm.parse import SlurmJob
from iris_fed.backends.slurm.shared import Kept, Seen
from iris_fed.backends.slurm.verdict import Found, judge
from iris_fed.backends.slurm.words import ACTIVE_STATES, PENDING_STATES, reason_in_words
from iris_fed.model.resources import Usage

NEVER = float("inf")


@dataclass(slots=True)
class Entry:
    """`submitted_s`: when Slurm had taken it, by the loop's clock; NEVER = it is not known to have. `state` is
    Slurm's word, '' = it does not know the job. `over_since_s`: since when it seems to be over. `changed` is
    set, and replaced, at any news."""

    kept: Kept
    job_id: str = ""
    submitted_s: float = NEVER
    state: str = ""
    reason: str = ""
    phase: Literal["queued", "building", "running"] = "queued"
    began: bool = False
    runs: Building | Running | None = None
    result: Ended | None = None
    told: bool = False
    cancelled: bool = False
    accounted: bool = True
    over_since_s: float | None = None
    usage: Usage | None = None
    launch: asyncio.Task[None] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def uid(self) -> str:
        return self.kept.uid

    @property
    def is_submitted(self) -> bool:
        return self.submitted_s != NEVER

    @property
    def is_queued(self) -> bool:
        return self.phase == "queued" and self.over_since_s is None

    def notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def now(self) -> Observation:
        """How it stands."""
        return self.runs or Queued(self.uid, self.reason or reason_in_words(""))

    def take_place(self, seen: Seen, now_s: float) -> list[Observation]:
        """What its place on the shared directory tells."""
        told: list[Observation] = []
        self.began = self.began or seen.began
        if seen.runs is not None and self.phase != "running":
            phase: Literal["building", "running"] = "building" if isinstance(seen.runs, Building) else "running"
            if phase != self.phase:
                self.phase, self.reason, self.runs = phase, "", seen.runs
                told.append(seen.runs)
        if seen.result is not None and self.result is None:
            self.result, self.told = seen.result, seen.told
            self.over_since_s = now_s
        return told

    def take_job(self, job: SlurmJob | None, asked_s: float, now_s: float) -> list[Observation]:
        """What the queue says of its job, None = nothing; it was asked at `asked_s`."""
        if job is None:
            if asked_s > self.submitted_s:
                # How it ended may have been seen before, or told by the accounting.
                self._seems_over("" if self.state in ACTIVE_STATES else self.state, now_s)
            return []
        self.job_id = job.job_id
        if not self.is_submitted:
            self.submitted_s = asked_s
        if job.state == "COMPLETING" or job.state not in ACTIVE_STATES:
            self._seems_over(job.state, now_s)
            return []
        self.state = job.state
        if self.result is None:
            self.over_since_s = None
        return self._waits(job) if job.state in PENDING_STATES else []

    def take_usage(self, usage: Usage | None) -> list[Observation]:
        if usage is None or usage == self.usage or self.phase == "queued":
            return []
        self.usage = usage
        return [Sampled(self.uid, usage)]

    def end(self, now_s: float, wait_s: float, words: str) -> AttemptEnd | None:
        """None = it is not over, or nobody can say yet."""
        if self.over_since_s is None:
            return None
        return judge(
            Found(
                result=self.result,
                told=self.told,
                cancelled=self.cancelled,
                began=self.began,
                state=self.state,
                for_s=now_s - self.over_since_s,
                wait_s=wait_s,
                accounted=self.accounted,
                words=words,
            )
        )

    def _seems_over(self, state: str, now_s: float) -> None:
        self.state = state
        if self.over_since_s is None:
            self.over_since_s = now_s

    def _waits(self, job: SlurmJob) -> list[Observation]:
        words = f"{reason_in_words(job.reason)} (Slurm job {job.job_id})"
        if self.phase != "queued" or words == self.reason:
            return []
        self.reason = words
        return [Queued(self.uid, words)]
