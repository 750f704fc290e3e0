"""One computation for all who ask the same at the same time, as a hundred open pages do."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar, cast

MAX_ANSWERS = 64
"""Different questions whose answers are kept; they all go with the next change anyway."""

T = TypeVar("T")


class SharedAnswers:
    """Answers that hold as long as `revision` stays what it is: it grows with every committed change, before
    its writer hears of it, so nobody is ever told what was so before its own write."""

    def __init__(self, revision: Callable[[], int]) -> None:
        self._revision = revision
        self._of = -1
        self._answers: dict[Hashable, asyncio.Task[Any]] = {}

    async def get(self, key: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
        """`key` says all that the answer depends on besides the database, whatever its caller may see included.
        `compute` must not ask who calls. Raises what it raises."""
        if self._of != (now := self._revision()):
            self._of, self._answers = now, {}
        task = self._answers.get(key)
        if task is None:
            task = asyncio.ensure_future(_run(compute))
            if len(self._answers) < MAX_ANSWERS:
                self._answers[key] = task
                task.add_done_callback(lambda done: self._drop_failed(key, done))
        # One who goes away takes nobody else's answer along.
        return cast(T, await asyncio.shield(task))

    def _drop_failed(self, key: Hashable, task: "asyncio.Task[Any]") -> None:
        if (task.cancelled() or task.exception() is not None) and self._answers.get(key) is task:
            del self._answers[key]


async def _run(compute: Callable[[], Awaitable[T]]) -> T:
    return await compute()
