"""`iris-fed db ...`: the database of a controller, while it does not run or beside it."""

from pathlib import Path
from typing import Annotated

import typer

from iris_fed.cli.exits import CHECK_FAILED
from iris_fed.cli.options import Json, examples
from iris_fed.cli.parse import UsageError
from iris_fed.cli.settings_file import ConfigFile, load, pick_config
from iris_fed.errors import NotFound

app = typer.Typer(help="Check a controller's database.", no_args_is_help=True)


@app.callback()
def _noun() -> None:
    """Check a controller's database."""


@app.command("check", epilog=examples("iris-fed db check --config iris-fed.yaml"))
def check(
    config: ConfigFile = None,
    state_dir: Annotated[
        Path | None, typer.Option("--state-dir", metavar="DIR", help="Instead of a configuration.")
    ] = None,
    json: Json = False,
) -> None:
    """Check the database: integrity, migrations, triggers. Exits with 1 when something is wrong."""
    from iris_fed.cli.terminal import one_line, print_json
    from iris_fed.store.check import DATABASE_NAME, check_database

    if config is not None and state_dir is not None:
        raise UsageError("give --config or --state-dir, not both")
    path = (state_dir or load(pick_config(config)).state_dir) / DATABASE_NAME
    if not path.exists():
        raise NotFound(f"there is no database {path}; a controller makes it when it first starts")
    problems = check_database(path)
    if json:
        print_json({"database": str(path), "problems": problems})
    else:
        print("\n".join(one_line(problem) for problem in problems) or f"{path}: no problem found")
    raise typer.Exit(CHECK_FAILED if problems else 0)
