"""Whether this controller can do its work, for whoever watches over it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio

from iris_fed.controller.disk import DiskGuard
from iris_fed.store.meta import prove_writable
from iris_fed.store.runtime import Runtime
from iris_fed.supervise import LoopReport

WRITE_LIMIT_S = 2.0
KEPT_S = 1.0
MAX_NOTES = 20


@dataclass(frozen=True, slots=True)
class Report:
    """`problems`: one sentence each; none = ready. `notes` are for the operator and change nothing."""

    problems: tuple[str, ...]
    notes: tuple[str, ...]
    loops: tuple[LoopReport, ...]


class Readiness:
    """`notes` tells what an operator should know of the backends."""

    def __init__(self, runtime: Runtime, disk: DiskGuard, notes: Callable[[], Sequence[str]]) -> None:
        self._runtime = runtime
        self._disk = disk
        self._notes = notes
        self._database = ""
        self._ask_again_at = float("-inf")

    async def report(self) -> Report:
        """A peer that is away is no problem: its loops wait for it, within their bounds."""
        loops = self._runtime.loops.report()
        problems = [
            f"loop {loop.name} {loop.problem}; its last progress was {loop.quiet_s:.0f} s ago"
            for loop in loops
            if loop.problem
        ]
        for problem in (self._disk.full(), await self._database_problem()):
            if problem:
                problems.insert(0, problem)
        closed = (self._disk.refusal(),) if self._disk.refusal() else ()
        return Report(tuple(problems), tuple([*closed, *self._notes()][:MAX_NOTES]), loops)

    async def _database_problem(self) -> str:
        """Asked at most once in a while: whoever asks for it costs a write."""
        now = anyio.current_time()
        if now >= self._ask_again_at:
            self._ask_again_at = now + KEPT_S
            self._database = await self._try_to_write()
        return self._database

    async def _try_to_write(self) -> str:
        try:
            with anyio.fail_after(WRITE_LIMIT_S):
                await self._runtime.db.write(prove_writable)
        except TimeoutError:
            return f"the database has not taken a write within {WRITE_LIMIT_S:g} s"
        except Exception as error:
            return f"the database cannot be written: {error}"
        return ""
