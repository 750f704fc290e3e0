"""Whether this controller can do its work, for whoever watches over it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio

from iris_fed.store.runtime import Runtime
from iris_fed.supervise import LoopReport

WRITE_LIMIT_S = 2.0
MAX_NOTES = 20


@dataclass(frozen=True, slots=True)
class Report:
    """`problems`: one sentence each; none = ready. `notes` are for the operator and change nothing."""

    problems: tuple[str, ...]
    notes: tuple[str, ...]
    loops: tuple[LoopReport, ...]


class Readiness:
    """`notes` tells what an operator should know of the backends."""

    def __init__(self, runtime: Runtime, notes: Callable[[], Sequence[str]]) -> None:
        self._runtime = runtime
        self._notes = notes

    async def report(self) -> Report:
        """A peer that is away is no problem: its loops wait for it, within their bounds."""
        loops = self._runtime.loops.report()
        problems = [
            f"loop {loop.name} {loop.problem}; its last progress was {loop.quiet_s:.0f} s ago"
            for loop in loops
            if loop.problem
        ]
        if unwritable := await self._database_problem():
            problems.insert(0, unwritable)
        return Report(tuple(problems), tuple(self._notes()[:MAX_NOTES]), loops)

    async def _database_problem(self) -> str:
        try:
            with anyio.fail_after(WRITE_LIMIT_S):
                await self._runtime.db.write(lambda tx: tx.execute("SELECT 1").fetchone())
        except TimeoutError:
            return f"the database has not taken a write within {WRITE_LIMIT_S:g} s"
        except Exception as error:
            return f"the database cannot be written: {error}"
        return ""
