"""`job exec`: a command beside a running task."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from iris_fed.cli.exits import WAIT_TIMED_OUT
from iris_fed.cli.options import Context, Controller, JobOrTask, Json, text
from iris_fed.cli.parse import UsageError, parse_duration

if TYPE_CHECKING:
    from typing import TextIO

MAX_TIMEOUT_S = 600


def exec_(
    task: JobOrTask,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="What to run; no shell is between.")],
    timeout: Annotated[str, text("--timeout", "90s", "Kill it after that long, at most 10m; default 60s.")] = "",
    json: Json = False,
    controller: Controller = None,
    context: Context = None,
) -> None:
    """Run a command in the directory and environment of a running task.

    Its output is shown when it has ended, at most 1 MiB of each stream. Exits with the command's own
    code; 124 when it did not end in time, 125 when it was refused or the task does not run.
    """
    from iris_fed.cli.session import as_json, full_id, with_client
    from iris_fed.cli.terminal import print_json, say
    from iris_fed.client import Client
    from iris_fed.rpc.gen.cluster.controller_pb2 import Controller as Wire

    timeout_s = timeout_seconds(timeout)

    async def run(client: Client) -> Wire.ExecInContainerResponse:
        return await client.exec(await full_id(client, task), command, timeout_s)

    answer = with_client(controller, context, run)
    if json:
        print_json(as_json(answer))
    else:
        _write(answer.stdout, sys.stdout)
        _write(answer.stderr, sys.stderr)
        if answer.error:
            say(f"iris-fed: {command[0]}: {answer.error}")
    raise typer.Exit(answer.exit_code if answer.HasField("exit_code") else WAIT_TIMED_OUT)


def timeout_seconds(duration: str) -> int:
    """Whole seconds, rounded up. Raises UsageError beyond ten minutes."""
    if not duration:
        return 60
    seconds = -(-parse_duration(duration, "--timeout") // 1000)
    if seconds > MAX_TIMEOUT_S:
        raise UsageError(f"--timeout {duration!r}: a command in a task's place has at most 10m; submit a job for more")
    return seconds


def _write(output: str, stream: "TextIO") -> None:
    from iris_fed.cli.terminal import strip_controls

    shown = strip_controls(output) if stream.isatty() else output
    stream.buffer.write(shown.encode("utf-8", "replace"))
    stream.flush()
