"""`iris-fed user ...`: who uses the cluster."""

from typing import TYPE_CHECKING

import typer

from iris_fed.cli.options import Context, Controller, Json, examples

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iris_fed.rpc.gen.cluster.controller_pb2 import Controller as Wire

app = typer.Typer(help="Look at the cluster's users.", no_args_is_help=True)

COLUMNS = ("USER", "ROLE", "ACTIVE JOBS", "ENDED JOBS", "RUNNING TASKS", "WAITING TASKS")
_ACTIVE = ("PENDING", "BUILDING", "RUNNING")


@app.callback()
def _noun() -> None:
    """Look at the cluster's users."""


@app.command("list", epilog=examples("iris-fed user list"))
def list_(json: Json = False, controller: Controller = None, context: Context = None) -> None:
    """List who has jobs here, and what they are doing."""
    from iris_fed.cli.session import as_json, with_client
    from iris_fed.cli.terminal import print_json, print_table

    answer = with_client(controller, context, lambda client: client.users())
    if json:
        print_json(as_json(answer))
        return
    print_table(COLUMNS, [row(user) for user in answer.users])


def row(user: "Wire.UserSummary") -> tuple[str, ...]:
    """One row of COLUMNS."""
    jobs, tasks = user.job_state_counts, user.task_state_counts
    active = _sum(jobs, _ACTIVE)
    return (
        user.user,
        user.role or "-",
        str(active),
        str(sum(jobs.values()) - active),
        str(_sum(tasks, ("BUILDING", "RUNNING", "ASSIGNED"))),
        str(tasks.get("PENDING", 0)),
    )


def _sum(counts: "Mapping[str, int]", states: tuple[str, ...]) -> int:
    return sum(counts.get(state, 0) for state in states)
