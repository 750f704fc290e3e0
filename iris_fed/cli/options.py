"""Options that several commands share, spelled once, and how examples are shown."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from iris_fed.cli import complete

Controller = Annotated[
    str | None,
    typer.Option("--controller", metavar="URL", help="The controller to speak to.", show_default=False),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help="A context of the contexts file.",
        show_default=False,
        autocompletion=complete.contexts,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, in the wire's names.")]
JobName = Annotated[
    str, typer.Argument(metavar="JOB", help="A job's id; NAME means /<you>/NAME.", autocompletion=complete.jobs)
]
JobNames = Annotated[
    list[str],
    typer.Argument(metavar="JOB...", help="Job ids; NAME means /<you>/NAME.", autocompletion=complete.jobs),
]
JobOrTask = Annotated[
    str,
    typer.Argument(
        metavar="JOB|TASK",
        help="A task's id (NAME/INDEX); a job means its task 0.",
        autocompletion=complete.jobs,
    ),
]
AttemptNumber = Annotated[
    int | None,
    typer.Option(
        "--attempt", metavar="N", min=0, max=1_000_000, help="This attempt, from 0; else the last.", show_default=False
    ),
]
TaskIndex = Annotated[
    int | None,
    typer.Option(
        "--task", metavar="N", min=0, max=1_000_000, help="This task, from 0; else task 0.", show_default=False
    ),
]

_VERBATIM = "\b\n"
"""Before a paragraph it keeps the help formatter from filling the lines."""


def text(flag: str, metavar: str, help: str, offers: Callable[..., list[str]] | None = None) -> Any:
    """An option that takes text and has nothing by default; `offers` completes it."""
    return typer.Option(flag, metavar=metavar, help=help, show_default=False, autocompletion=offers)


def examples(*lines: str) -> str:
    """The last paragraph of a command's help."""
    return _VERBATIM + "\n".join(["Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)])
