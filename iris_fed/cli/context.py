"""`iris-fed context ...`: names for the controllers you speak to."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from iris_fed.cli import complete
from iris_fed.cli.options import Json, examples
from iris_fed.cli.parse import UsageError
from iris_fed.errors import InvalidArgument, NotFound

app = typer.Typer(help="Name the controllers you speak to, and choose one.", no_args_is_help=True)

URL_FILE = "controller.url"
TOKEN_FILE = "admin.token"
_NAME = Annotated[str, typer.Argument(metavar="NAME", help="The context's name.", autocompletion=complete.contexts)]


@app.command("list", epilog=examples("iris-fed context list"))
def list_(json: Json = False) -> None:
    """List the contexts; the current one is marked."""
    from iris_fed.cli.terminal import print_json, print_table
    from iris_fed.client.contexts import contexts_path, read_contexts

    known = read_contexts(contexts_path())
    if json:
        entries = {
            name: {"controller": c.controller, "token_file": c.token_file, "edge_token": _edge_kind(c.edge_token)}
            for name, c in known.contexts.items()
        }
        print_json({"current": known.current, "contexts": entries})
        return
    rows = [
        (
            "*" if name == known.current else "",
            name,
            context.controller,
            context.token_file or "-",
            _edge_kind(context.edge_token) or "-",
        )
        for name, context in sorted(known.contexts.items())
    ]
    print_table(("", "NAME", "CONTROLLER", "TOKEN FILE", "EDGE TOKEN"), rows)


@app.command("use", epilog=examples("iris-fed context use hub"))
def use(name: _NAME) -> None:
    """Make NAME the current context."""
    from iris_fed.cli.terminal import say
    from iris_fed.client.contexts import contexts_path, read_contexts, write_contexts

    path = contexts_path()
    known = read_contexts(path)
    if name not in known.contexts:
        raise NotFound(f"there is no context {name!r}; see `iris-fed context list`")
    write_contexts(path, replace(known, current=name))
    say(f"the current context is {name}: {known.contexts[name].controller}")


@app.command(
    "add",
    epilog=examples(
        "iris-fed context add hub --state-dir hub/state",
        "iris-fed context add far --controller https://far.example.org --token-file far.token",
        "iris-fed context add iap --controller https://iap.example.org --edge-token google:AUDIENCE",
    ),
)
def add(
    name: _NAME,
    controller: Annotated[str, typer.Option("--controller", metavar="URL", help="The controller's URL.")] = "",
    token_file: Annotated[str, typer.Option("--token-file", metavar="FILE", help="Where the token lies.")] = "",
    edge_token: Annotated[
        str,
        typer.Option(
            "--edge-token",
            metavar="SOURCE",
            help="Of the token for a proxy in front: file:PATH, env:NAME, command:CMD or google:AUDIENCE.",
        ),
    ] = "",
    state_dir: Annotated[
        Path | None, typer.Option("--state-dir", metavar="DIR", help="Of a controller on this machine: both of these.")
    ] = None,
) -> None:
    """Add or replace a context, and make it the current one."""
    from iris_fed.cli.terminal import say
    from iris_fed.client.contexts import Context, check_url, contexts_path, read_contexts, write_contexts
    from iris_fed.config.edge_tokens import check_edge_token

    if edge_token:
        try:
            check_edge_token(edge_token)
        except ValueError as error:
            raise UsageError(f"--edge-token: {error}") from error
    if bool(controller) == bool(state_dir):
        raise UsageError("give --controller URL or --state-dir DIR")
    if state_dir is not None:
        controller = _url_of(state_dir)
        token_file = token_file or str((state_dir / TOKEN_FILE).resolve())
    elif token_file:
        token_file = str(Path(token_file).expanduser().resolve())
    path = contexts_path()
    known = read_contexts(path)
    added = Context(check_url(controller), token_file, edge_token)
    write_contexts(path, replace(known, current=name, contexts={**known.contexts, name: added}))
    say(f"the current context is {name}: {added.controller}")


def _edge_kind(source: str) -> str:
    """What a listing may show of it."""
    from iris_fed.config.edge_tokens import masked

    return masked(source, "***")


def _url_of(state_dir: Path) -> str:
    try:
        return (state_dir / URL_FILE).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InvalidArgument(
            f"cannot read {state_dir / URL_FILE}: {error.strerror}; a controller writes it when it starts"
        ) from error
