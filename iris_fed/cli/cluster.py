"""`iris-fed cluster ...`: the controller itself."""

import typer

from iris_fed.cli.options import Context, Controller, Json, examples

app = typer.Typer(help="Look at the controller itself.", no_args_is_help=True)


@app.callback()
def _noun() -> None:
    """Look at the controller itself."""


@app.command("info", epilog=examples("iris-fed cluster info"))
def info(json: Json = False, controller: Controller = None, context: Context = None) -> None:
    """Show the cluster's name, version, peers, and who you are to it."""
    from iris_fed.cli import formats
    from iris_fed.cli.job_list import now_ms
    from iris_fed.cli.session import as_json, with_client
    from iris_fed.cli.terminal import print_fields, print_json
    from iris_fed.client import Client
    from iris_fed.rpc.gen.irisfed.cluster_pb2 import GetClusterInfoResponse
    from iris_fed.rpc.gen.job.job_pb2 import GetCurrentUserResponse

    async def ask(client: Client) -> tuple[str, GetClusterInfoResponse, GetCurrentUserResponse]:
        return client.address, await client.info(), await client.whoami()

    address, cluster, me = with_client(controller, context, ask)
    if json:
        print_json(as_json(cluster))
        return
    print_fields(
        [
            ("cluster", cluster.cluster),
            ("controller", address),
            ("version", cluster.version),
            ("up for", formats.age(now_ms(), cluster.started_ms)),
            ("database", cluster.database_id),
            ("peers", ", ".join(cluster.peers) or "none"),
            ("you are", f"{me.user_id} ({me.role})"),
        ]
    )
