"""Options that several commands share, spelled once."""

from typing import Annotated

import typer

Controller = Annotated[
    str | None,
    typer.Option("--controller", metavar="URL", help="The controller to speak to.", show_default=False),
]
Context = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="A context of the contexts file.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, in the wire's names.")]
JobName = Annotated[str, typer.Argument(metavar="JOB", help="A job's id; NAME means /<you>/NAME.")]
JobNames = Annotated[list[str], typer.Argument(metavar="JOB...", help="Job ids; NAME means /<you>/NAME.")]
