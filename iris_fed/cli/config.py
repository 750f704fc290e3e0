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
    """Check FILE and print the effective configuration, defaults and variables included, secrets masked.

    What depends on the machine and on who starts the controller is noted on standard error.
    """
    from iris_fed.cli.terminal import say
    from iris_fed.config.show import effective_yaml
    from iris_fed.errors import ConfigError
    from iris_fed.server.task_accounts import check_admitted, check_task_accounts

    settings = load(file)
    check_admitted(settings)
    try:
        check_task_accounts(settings)
    except ConfigError as error:
        say(f"note: started here, by this user, it would be refused: {error}")
    print(effective_yaml(settings), end="")
