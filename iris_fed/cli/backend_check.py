"""`iris-fed backend check`: what the site lacks, before anything is submitted to it."""

from typing import Annotated

import typer

from iris_fed.cli.options import Json
from iris_fed.cli.settings_file import ConfigFile, load, pick_config


def check(
    backend: Annotated[str | None, typer.Argument(metavar="[BACKEND]", help="Default: every Slurm backend.")] = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Check, on the controller's machine and as its user, what its Slurm backends need; nothing is submitted."""
    from iris_fed.backends.slurm.check import run_check
    from iris_fed.cli.exits import CHECK_FAILED
    from iris_fed.cli.terminal import print_json, print_table
    from iris_fed.errors import NotFound
    from iris_fed.server.slurm import slurm_settings

    settings = load(pick_config(config))
    wanted = [one for one in settings.backends if one.kind == "slurm" and backend in (None, one.id)]
    if not wanted:
        raise NotFound(f"no Slurm backend {backend or ''} in the configuration".replace("  ", " "))
    found = [(one.id, finding) for one in wanted for finding in run_check(slurm_settings(one))]
    if json:
        rows = [{"backend": name, "about": one.about, "problem": one.problem} for name, one in found]
        print_json({"findings": rows})
    else:
        print_table(
            ("BACKEND", "", "WHAT", "PROBLEM"),
            [(name, "missing" if one.problem else "ok", one.about, one.problem) for name, one in found],
        )
    if any(one.problem for _, one in found):
        raise typer.Exit(CHECK_FAILED)
