"""`iris-fed token ...`: user tokens, for people and programs that no proxy speaks for."""

from typing import TYPE_CHECKING, Annotated

import typer

from iris_fed.cli.options import Context, Controller, Json, examples, text
from iris_fed.cli.parse import UsageError, parse_duration

if TYPE_CHECKING:
    from iris_fed.rpc.gen.irisfed import cluster_pb2

app = typer.Typer(help="Make, list and revoke user tokens.", no_args_is_help=True)

COLUMNS = ("ID", "USER", "ROLE", "MADE", "EXPIRES", "BY", "NOTE")
_User = Annotated[str | None, text("--user", "USER", "An e-mail address or a bare user name; else yourself.")]


@app.command(
    "create",
    epilog=examples(
        "iris-fed token create --expires 7d --name laptop",
        "iris-fed token create --user alice@lab.org",
    ),
)
def create(
    user: _User = None,
    role: Annotated[str | None, text("--role", "ROLE", "admin, user or dashboard; else your own, or user.")] = None,
    expires: Annotated[
        str | None,
        text("--expires", "DURATION", "How long it counts, like 30d; else as long as the controller lets it."),
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NOTE", help="One line for the listing.")] = "",
    json: Json = False,
    controller: Controller = None,
    context: Context = None,
) -> None:
    """Make a token and print it: once, alone, on stdout. It is kept nowhere."""
    from iris_fed.cli.formats import clock_time
    from iris_fed.cli.session import as_json, with_client
    from iris_fed.cli.terminal import print_json, say

    lifetime_s = parse_duration(expires, "--expires") // 1000 if expires else 0
    if expires and not lifetime_s:
        raise UsageError("--expires: a token counts for at least a second")
    made = with_client(
        controller,
        context,
        lambda client: client.create_token(user or "", role=role or "", lifetime_s=lifetime_s, note=name),
    )
    if json:
        print_json(as_json(made))
        return
    info = made.info
    say(f"token {info.token_id} of {info.user} ({info.role}), until {clock_time(info.expires_ms)}")
    print(made.token, flush=True)


@app.command("list", epilog=examples("iris-fed token list", "iris-fed token list --user alice@lab.org"))
def list_(user: _User = None, json: Json = False, controller: Controller = None, context: Context = None) -> None:
    """List tokens that have not expired: your own, or as an administrator everybody's."""
    from iris_fed.cli.job_list import now_ms
    from iris_fed.cli.session import as_json, with_client
    from iris_fed.cli.terminal import print_json, print_table

    answer = with_client(controller, context, lambda client: client.tokens(user or ""))
    if json:
        print_json(as_json(answer))
        return
    print_table(COLUMNS, [row(token, now_ms()) for token in answer.tokens])


@app.command("revoke", epilog=examples("iris-fed token revoke 0f3c9a", "iris-fed token revoke --user alice@lab.org"))
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="[ID]", help="Of the listing.", show_default=False)] = "",
    user: Annotated[str | None, text("--user", "USER", "All tokens of this person instead.")] = None,
    json: Json = False,
    controller: Controller = None,
    context: Context = None,
) -> None:
    """Revoke a token: it counts no more from the next request on. Twice is no error."""
    from iris_fed.cli.session import as_json, with_client
    from iris_fed.cli.terminal import print_json, say

    if bool(token_id) == bool(user):
        raise UsageError("give a token's ID or --user USER")
    answer = with_client(controller, context, lambda client: client.revoke_token(token_id, user=user or ""))
    if json:
        print_json(as_json(answer))
        return
    for token in answer.tokens:
        say(f"revoked {token.token_id} of {token.user}")


def row(token: "cluster_pb2.UserToken", now_ms: int) -> tuple[str, ...]:
    """One row of COLUMNS."""
    from iris_fed.cli import formats

    left = formats.duration(max(0, token.expires_ms - now_ms))
    return (
        token.token_id,
        token.user,
        token.role,
        f"{formats.age(now_ms, token.created_ms)} ago",
        "revoked" if token.revoked_ms else f"in {left}",
        token.created_by,
        token.note,
    )
