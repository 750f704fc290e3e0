"""`job files` and `job fetch`: what lies in a task's work directory."""

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from iris_fed.cli import formats
from iris_fed.cli.exits import SOME_MISSING
from iris_fed.cli.options import AttemptNumber, Context, Controller, JobOrTask, Json, TaskIndex
from iris_fed.cli.parse import UsageError
from iris_fed.model.ids import is_task_id, task_id

if TYPE_CHECKING:
    from iris_fed.client import Fetched
    from iris_fed.rpc.gen.irisfed.cluster_pb2 import FileEntry

COLUMNS = ("MODE", "SIZE", "MODIFIED", "PATH")
_REDRAW_S = 0.1
_PATH = Annotated[str, typer.Argument(metavar="PATH", help="A file or folder below the work directory; . for all.")]
_DEST = Annotated[str, typer.Argument(metavar="[DEST]", help="The folder to put it into; made when absent.")]


def files(
    task: JobOrTask,
    path: Annotated[str, typer.Argument(metavar="[PATH]", help="A folder below it.", show_default=False)] = "",
    index: TaskIndex = None,
    attempt: AttemptNumber = None,
    json: Json = False,
    controller: Controller = None,
    context: Context = None,
) -> None:
    """List the files of a task's work directory, one folder at a time."""
    from iris_fed.cli.session import as_json, full_id, with_client
    from iris_fed.cli.terminal import print_json, print_table, say
    from iris_fed.client import Client
    from iris_fed.rpc.gen.irisfed.cluster_pb2 import ListFilesResponse

    async def ask(client: Client) -> ListFilesResponse:
        folder = "" if path == "." else path.removeprefix("./").rstrip("/")
        return await client.list_files(_one_task(await full_id(client, task), index), folder, attempt)

    answer = with_client(controller, context, ask)
    if json:
        print_json(as_json(answer))
        return
    print_table(COLUMNS, [row(entry) for entry in answer.entries])
    if answer.truncated:
        say("there is more; the controller lists only the first names")


def fetch(  # noqa: PLR0913 - one parameter a flag
    task: JobOrTask,
    path: _PATH,
    destination: _DEST = "",
    index: TaskIndex = None,
    all_tasks: Annotated[bool, typer.Option("--all-tasks", help="Of every task, each into DEST/<task index>.")] = False,
    attempt: AttemptNumber = None,
    json: Json = False,
    controller: Controller = None,
    context: Context = None,
) -> None:
    """Bring a file or folder of a task's work directory here, into DEST under its own name.

    A job that runs on a peer is reached through the controller. Cut short, the same command goes on
    where it was; what is here already with the same size and time is not sent again. Links are not
    brought along, and none that lies in DEST is followed. With --all-tasks a task that lacks PATH is
    named and left out; that some did makes the exit code 1, that all did 125.
    """
    from iris_fed.cli.session import full_id, with_client
    from iris_fed.cli.terminal import print_json, say
    from iris_fed.client import Client, Fetched, FetchedTasks

    if path in ("", ".", "./") and not destination:
        raise UsageError("the whole work directory needs a DEST: iris-fed job fetch JOB . DEST")
    destination = destination or "."
    bar = _Bar()

    async def bring(client: Client) -> Fetched | FetchedTasks:
        id = await full_id(client, task)
        try:
            if all_tasks:
                job = _whole_job(id, index)
                return await client.fetch_tasks(job, path, destination, attempt_id=attempt, progress=bar.show)
            return await client.fetch(_one_task(id, index), path, destination, attempt_id=attempt, progress=bar.show)
        finally:
            bar.clear()

    done = with_client(controller, context, bring)
    total = done if isinstance(done, Fetched) else done.total
    missing = {} if isinstance(done, Fetched) else done.missing
    if json:
        document = _document(destination, total)
        print_json(document if isinstance(done, Fetched) else document | {"missing": _by_index(missing)})
    else:
        for words in missing.values():
            say(words)
        say(summary(destination, total))
    if missing:
        raise typer.Exit(SOME_MISSING)


def _one_task(id: str, index: int | None) -> str:
    """Raises UsageError when both name a task."""
    return id if index is None else task_id(_whole_job(id, None, f"--task {index}"), index)


def _whole_job(id: str, index: int | None, flag: str = "--all-tasks") -> str:
    if is_task_id(id) or index is not None:
        raise UsageError(f"{flag}: a task is named already; name the job")
    return id


def row(entry: "FileEntry") -> tuple[str, ...]:
    """One row of COLUMNS."""
    modified = formats.clock_time(entry.modified_ms).split(".")[0]
    size = "-" if entry.is_folder else formats.size(entry.size)
    return f"{entry.mode:04o}", size, modified, entry.path + "/" * entry.is_folder


def summary(destination: str, done: "Fetched") -> str:
    kept = f"; {formats.size(done.kept_bytes)} had been here" if done.kept_bytes else ""
    return f"{formats.plural(done.files, 'file')} in {destination}, {formats.size(done.received_bytes)} received{kept}"


def _by_index(missing: Mapping[int, str]) -> dict[str, str]:
    return {str(index): words for index, words in missing.items()}


def _document(destination: str, done: "Fetched") -> dict[str, object]:
    return {
        "destination": destination,
        "files": done.files,
        "receivedBytes": str(done.received_bytes),
        "keptBytes": str(done.kept_bytes),
    }


class _Bar:
    """One line on a terminal's stderr, drawn a few times a second; nothing elsewhere."""

    def __init__(self) -> None:
        self._drawn_at = 0.0
        self._is_wanted = sys.stderr.isatty()

    def show(self, path: str, done: int, size: int) -> None:
        from iris_fed.cli.terminal import one_line

        now = time.monotonic()
        if self._is_wanted and now - self._drawn_at >= _REDRAW_S:
            self._drawn_at = now
            share = 100 * done // size if size else 100
            words = f"{share:3d}% of {formats.size(size)}  {one_line(path)[-60:]}"
            print(f"\r\x1b[K{words}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._drawn_at:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
