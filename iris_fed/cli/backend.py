"""`iris-fed backend ...`: what the controller drives itself."""

import typer

from iris_fed.cli import backend_check
from iris_fed.cli.options import Context, Controller, Json, examples

app = typer.Typer(help="Look at the controller's own backends.", no_args_is_help=True)


@app.callback()
def _noun() -> None:
    """Look at the controller's own backends."""


app.command("check", epilog=examples("iris-fed backend check --config iris-fed.yaml"))(backend_check.check)


@app.command("list", epilog=examples("iris-fed backend list"))
def list_(json: Json = False, controller: Controller = None, context: Context = None) -> None:
    """List the backends: what they offer, what is free, how many tasks."""
    from iris_fed.cli.offers import BACKEND_COLUMNS, backend_row
    from iris_fed.cli.session import as_json, with_client
    from iris_fed.cli.terminal import print_json, print_table, say

    answer = with_client(controller, context, lambda client: client.backends())
    if json:
        print_json(as_json(answer))
        return
    print_table(BACKEND_COLUMNS, [backend_row(backend) for backend in answer.backends])
    for backend in answer.backends:
        if backend.trouble:
            say(f"{backend.backend_id}: {backend.trouble}")
    for job in answer.unroutable_sample:
        say(f"{job.job_id} can run nowhere: {job.reason}")
