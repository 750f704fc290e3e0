"""Bringing the same file or folder of several tasks here, each into a folder of its own."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from iris_fed.client.fetch import MAX_BYTES, Budget, Fetched, Progress, Source, fetch_within
from iris_fed.errors import NotFound


@dataclass(frozen=True, slots=True)
class FetchedTasks:
    """What was brought, by task index; `missing` says of the others what they lack."""

    tasks: Mapping[int, Fetched]
    missing: Mapping[int, str]

    @property
    def total(self) -> Fetched:
        done = self.tasks.values()
        return Fetched(
            sum(one.files for one in done), sum(one.received_bytes for one in done), sum(one.kept_bytes for one in done)
        )


async def fetch_tasks(
    source_of: Callable[[int], Source],
    indexes: Iterable[int],
    path: str,
    destination: str | os.PathLike[str],
    *,
    max_bytes: int = MAX_BYTES,
    progress: Progress | None = None,
) -> FetchedTasks:
    """As `fetch`, for one task after the other, into the folder `destination`/<task index>.

    The bounds hold for all together. A task that has no such path, or no attempt yet, is left out.
    Raises NotFound when that is so of all of them, and what `fetch` raises.
    """
    budget = Budget(max_bytes)
    tasks: dict[int, Fetched] = {}
    missing: dict[int, str] = {}
    for index in indexes:
        told = None if progress is None else _of_task(index, progress)
        try:
            tasks[index] = await fetch_within(budget, source_of(index), path, Path(destination, str(index)), told)
        except NotFound as error:
            missing[index] = error.message
    if missing and not tasks:
        raise NotFound(f"none of the job's tasks has it; {missing[min(missing)]}")
    return FetchedTasks(tasks, missing)


def _of_task(index: int, progress: Progress) -> Progress:
    return lambda path, done, size: progress(f"{index}/{path}", done, size)
