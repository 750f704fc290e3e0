"""The command and its nouns, put together."""

import os
from typing import Annotated

import typer

from iris_fed import __version__
from iris_fed.cli import (
    backend,
    cluster,
    config,
    context,
    dashboard,
    database,
    job,
    keys,
    login,
    peer,
    setup,
    token,
    user,
)
from iris_fed.cli import serve as serve_command
from iris_fed.cli.demo.command import demo
from iris_fed.cli.options import examples

app = typer.Typer(
    name="iris-fed",
    help="A lab's clusters, run as one: submit to the nearest controller, it runs where it can.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(job.app, name="job")
app.add_typer(peer.app, name="peer")
app.add_typer(backend.app, name="backend")
app.add_typer(user.app, name="user")
app.add_typer(token.app, name="token")
app.add_typer(keys.app, name="keys")
app.add_typer(cluster.app, name="cluster")
app.add_typer(context.app, name="context")
app.add_typer(config.app, name="config")
app.add_typer(database.app, name="db")
app.command("serve", epilog=examples("iris-fed serve --config iris-fed.yaml"))(serve_command.serve)
app.command("init", epilog=examples("iris-fed init hub --name hub"))(setup.init)
app.command(
    "login",
    epilog=examples(
        "iris-fed login https://hub.example.org",
        "iris-fed login https://hub.example.org --token-stdin --name hub",
        "iris-fed login https://hub.example.org --edge-token-command 'gcloud auth print-identity-token'",
    ),
)(login.login)
app.command("logout", epilog=examples("iris-fed logout", "iris-fed logout hub --revoke"))(login.logout)
app.command("dashboard", epilog=examples("iris-fed dashboard", "iris-fed dashboard --print"))(dashboard.dashboard)
app.command("demo", epilog=examples("iris-fed demo", "iris-fed demo --once"))(demo)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"iris-fed {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    controller: Annotated[str | None, typer.Option("--controller", metavar="URL", hidden=True)] = None,
    context: Annotated[str | None, typer.Option("--context", metavar="NAME", hidden=True)] = None,
    debug: Annotated[bool, typer.Option("--debug", hidden=True)] = False,
) -> None:
    # Given before the noun they mean the same as after the verb: each command reads the environment.
    if controller:
        os.environ["IRIS_FED_CONTROLLER"] = controller
    if context:
        os.environ.pop("IRIS_FED_CONTROLLER", None)
        os.environ["IRIS_FED_CONTEXT"] = context
