"""`iris-fed serve`: run a controller."""

from typing import Annotated

import typer

from iris_fed.cli.settings_file import ConfigFile, load, pick_config


def serve(
    config: ConfigFile = None,
    exit_with_parent: Annotated[
        bool, typer.Option("--exit-with-parent", hidden=True, help="End when standard input ends.")
    ] = False,
) -> None:
    """Run the controller of this cluster until SIGTERM or Ctrl+C; running tasks go on."""
    settings = load(pick_config(config))

    from iris_fed.rpc.connect_client import keep_loopback_off_proxies
    from iris_fed.server import run

    keep_loopback_off_proxies()
    raise typer.Exit(run(settings, exit_on_stdin_eof=exit_with_parent))
