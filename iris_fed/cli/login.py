"""`iris-fed login` and `iris-fed logout`: a controller and what to show there, kept under a name."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from iris_fed.cli import complete
from iris_fed.cli.options import text
from iris_fed.cli.parse import UsageError
from iris_fed.errors import AlreadyExists, InvalidArgument, NotFound

if TYPE_CHECKING:
    from iris_fed.client import Client, Target
    from iris_fed.client.contexts import Contexts

_URL = Annotated[str, typer.Argument(metavar="URL", help="The controller's URL.")]
_NAME = Annotated[str | None, text("--name", "CONTEXT", "What to call it; else the cluster's own name.")]
_STDIN = Annotated[bool, typer.Option("--token-stdin", help="Read the token from standard input.")]
_FILE = Annotated[str | None, text("--token-file", "FILE", "Copy the token from a file.")]
_EDGE_COMMAND = Annotated[
    str | None,
    text("--edge-token-command", "CMD", "Prints the token for a proxy in front (Google IAP), whenever one is needed."),
]
_EDGE = Annotated[
    str | None, text("--edge-token", "SOURCE", "The same from file:PATH, env:NAME, command:CMD or google:AUDIENCE.")
]


def login(
    url: _URL,
    token_stdin: _STDIN = False,
    token_file: _FILE = None,
    edge_token_command: _EDGE_COMMAND = None,
    edge_token: _EDGE = None,
    name: _NAME = None,
) -> None:
    """Make sure that a controller knows you, keep what it was shown, and make it the current context.

    The token is asked for on a terminal; with an edge token none is needed, since the proxy tells who you are. It is
    kept in a file of your own beside the contexts file, with mode 0600.
    """
    from iris_fed.cli.session import run_async
    from iris_fed.cli.terminal import say
    from iris_fed.client.contexts import (
        Context,
        Target,
        check_url,
        contexts_path,
        guarded,
        read_contexts,
        write_contexts,
    )
    from iris_fed.client.stored_tokens import store_token

    edge = _edge_source(edge_token_command, edge_token)
    target = guarded(Target(check_url(url), edge_token=edge))
    path = contexts_path()
    known = read_contexts(path)
    token = _read_token(token_stdin, token_file, asks=not edge)
    # Guarded again, now that there is a token.
    target = guarded(replace(target, token=token))
    user, role, cluster = run_async(_verified(target))
    chosen = _name_for(name or cluster, target.address, known, name is not None)
    stored = str(store_token(path, chosen, token)) if token else ""
    context = Context(target.address, stored, edge)
    write_contexts(path, replace(known, current=chosen, contexts={**known.contexts, chosen: context}))
    say(f"the current context is {chosen}: {target.address}, as {user} ({role})")


def logout(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[CONTEXT]", help="Else the current one.", show_default=False, autocompletion=complete.contexts
        ),
    ] = "",
    revoke: Annotated[bool, typer.Option("--revoke", help="Also let the controller revoke the token.")] = False,
) -> None:
    """Forget a context, and the token that `login` kept for it."""
    from iris_fed.cli.terminal import say
    from iris_fed.client.contexts import contexts_path, read_contexts, write_contexts
    from iris_fed.client.stored_tokens import forget_token

    path = contexts_path()
    known = read_contexts(path)
    name = name or known.current
    if name not in known.contexts:
        raise NotFound(
            f"there is no context {name!r}; see `iris-fed context list`" if name else "no context is current"
        )
    if revoke:
        _revoke(name)
    left = {other: context for other, context in known.contexts.items() if other != name}
    write_contexts(path, replace(known, current="" if known.current == name else known.current, contexts=left))
    removed = forget_token(path, known.contexts[name].token_file)
    say(f"forgot the context {name}" + (" and its token" if removed else ""))


def _edge_source(command: str | None, source: str | None) -> str:
    from iris_fed.config.edge_tokens import COMMAND, check_edge_token
    from iris_fed.config.references import FILE

    if command and source:
        raise UsageError("give --edge-token-command or --edge-token, not both")
    reference = COMMAND + command if command else source or ""
    try:
        checked = check_edge_token(reference) if reference else ""
    except ValueError as error:
        raise UsageError(f"--edge-token: {error}") from error
    if checked.startswith(FILE):
        return FILE + str(Path(checked.removeprefix(FILE)).expanduser().resolve())
    return checked


def _read_token(from_stdin: bool, file: str | None, asks: bool) -> str:
    """ "" = none, for a controller behind a proxy that tells who one is."""
    from iris_fed.client.contexts import Target
    from iris_fed.client.stored_tokens import MAX_TOKEN_BYTES, as_token

    if from_stdin and file:
        raise UsageError("give --token-stdin or --token-file, not both")
    if from_stdin:
        return as_token(sys.stdin.read(MAX_TOKEN_BYTES + 1))
    if file:
        return as_token(Target("", token_file=file).read_token() or "")
    if not asks:
        return ""
    if not sys.stdin.isatty():
        raise UsageError("give --token-stdin, --token-file FILE or --edge-token-command CMD")
    return as_token(typer.prompt("Token", hide_input=True, err=True))


async def _verified(target: "Target") -> tuple[str, str, str]:
    """Who one is there, in which role, and the cluster's name."""
    from iris_fed.client import Client

    async with Client.for_target(target) as client:
        me = await client.whoami()
        info = await client.info()
    return me.user_id or me.display_name or "a guest", me.role, info.cluster


def _name_for(name: str, address: str, known: "Contexts", is_given: bool) -> str:
    from iris_fed.client.stored_tokens import check_context_name

    check_context_name(name)
    other = known.contexts.get(name)
    if other is not None and other.controller != address and not is_given:
        raise AlreadyExists(f"the context {name} is {other.controller}; call this one otherwise with --name")
    return name


def _revoke(name: str) -> None:
    from iris_fed.auth.claims import claimed
    from iris_fed.cli.session import with_client
    from iris_fed.client.contexts import find_target

    claims = claimed(find_target(context=name).read_token() or "")
    token_id = claims.get("jti") if claims else None
    if not isinstance(token_id, str):
        raise InvalidArgument(f"the context {name} holds no user token, so there is none to revoke")

    async def revoke(client: "Client") -> None:
        await client.revoke_token(token_id)

    with_client(None, name, revoke)
