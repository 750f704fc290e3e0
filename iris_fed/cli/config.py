"""`iris-fed config ...`: the configuration file."""

from pathlib import Path
from typing import Annotated

import typer

from iris_fed.cli.options import examples
from iris_fed.cli.settings_file import load

app = typer.Typer(help="Check a configuration file.", no_args_is_help=True)


@app.callback()
def _noun() -> None:
    """Check a configuration file."""


@app.command("check", epilog=examples("iris-fed config check iris-fed.yaml"))
def check(file: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration file.")]) -> None:
    """Check FILE and print the effective configuration, defaults and variables included, secrets masked."""
    from iris_fed.config import effective_yaml

    print(effective_yaml(load(file)), end="")
