"""`iris-fed peer ...`: the clusters that the controller may hand jobs to."""

import sys
from typing import Annotated

import typer

from iris_fed.cli import complete
from iris_fed.cli.exits import CHECK_FAILED
from iris_fed.cli.options import Context, Controller, Json, examples
from iris_fed.cli.parse import UsageError

app = typer.Typer(help="Look at the controller's peers.", no_args_is_help=True)


@app.command("list", epilog=examples("iris-fed peer list"))
def list_(json: Json = False, controller: Controller = None, context: Context = None) -> None:
    """List the peers: reachable or not, last contact, jobs there, what they offer."""
    from iris_fed.cli.job_list import now_ms
    from iris_fed.cli.offers import PEER_COLUMNS, peer_row
    from iris_fed.cli.session import as_json, with_client
    from iris_fed.cli.terminal import print_json, print_table

    answer = with_client(controller, context, lambda client: client.peers())
    if json:
        print_json(as_json(answer))
        return
    print_table(PEER_COLUMNS, [peer_row(peer, now_ms()) for peer in answer.peers])


@app.command("check", epilog=examples("iris-fed peer check gpu-lab"))
def check(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The peer's name.", autocompletion=complete.peers)],
    json: Json = False,
    controller: Controller = None,
    context: Context = None,
) -> None:
    """Let the controller test its way to a peer: DNS, TLS, token, trust, admission. Exits with 1 on a failure."""
    from iris_fed.cli.session import as_json, with_client
    from iris_fed.cli.terminal import print_json, print_table

    answer = with_client(controller, context, lambda client: client.check_peer(name))
    if json:
        print_json(as_json(answer))
    else:
        rows = [(step.step, "ok" if step.ok else "FAIL", step.detail) for step in answer.steps]
        print_table(("STEP", "RESULT", "WHAT WAS FOUND"), rows)
    raise typer.Exit(0 if answer.steps and all(step.ok for step in answer.steps) else CHECK_FAILED)


@app.command("forget", epilog=examples("iris-fed peer forget gpu-lab --yes"))
def forget(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The peer's name, declared or not.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Json = False,
    controller: Controller = None,
    context: Context = None,
) -> None:
    """Give up a peer that never comes back: its unfinished jobs end as lost.

    Nobody can know whether they ran. Should the peer show them again, that is taken back.
    """
    from iris_fed.cli.session import as_json, with_client
    from iris_fed.cli.terminal import print_json

    if not yes:
        if sys.stdin is None or not sys.stdin.isatty():
            raise UsageError("there is nobody to ask; --yes says that it is meant")
        typer.confirm(f"Every unfinished job that was handed to {name} ends as lost. Go on?", abort=True, err=True)
    answer = with_client(controller, context, lambda client: client.forget_peer(name))
    if json:
        print_json(as_json(answer))
    else:
        print(f"{answer.jobs_lost} unfinished job{'' if answer.jobs_lost == 1 else 's'} of {name} ended as lost")
