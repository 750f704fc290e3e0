"""`iris-fed dashboard`: the controller's page in a browser, signed in."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from iris_fed.cli.options import Context, Controller

if TYPE_CHECKING:
    from iris_fed.client import Client, Target

LIFETIME_S = 12 * 3600
NOTE = "iris-fed dashboard"


def dashboard(
    print_: Annotated[bool, typer.Option("--print", help="Print the address instead of opening it.")] = False,
    controller: Controller = None,
    context: Context = None,
) -> None:
    """Open the controller's page in a browser, signed in for twelve hours.

    Behind a proxy that knows you, such as Google IAP, it is just the address. Else a fresh token of yours goes
    along behind the `#`, which a browser sends to nobody: treat the address like a password.
    """
    import webbrowser

    from iris_fed.cli.parse import UsageError
    from iris_fed.cli.session import with_client
    from iris_fed.cli.terminal import say
    from iris_fed.client import find_target

    if controller and context:
        raise UsageError("give --controller or --context, not both")
    target = find_target(controller=controller, context=context)
    token = "" if _is_known_by_proxy(target) else with_client(controller, context, _page_token(target))
    address = target.address + "/" + (f"#token={token}" if token else "")
    if print_ or not webbrowser.open(address):
        print(address, flush=True)
    else:
        say(f"opened {target.address}/")


def _is_known_by_proxy(target: "Target") -> bool:
    """Whether a proxy in front tells the controller who it is."""
    return bool(target.edge_token) or not target.read_token()


def _page_token(target: "Target") -> "Callable[[Client], Awaitable[str]]":
    async def make(client: "Client") -> str:
        from iris_fed.errors import FailedPrecondition

        try:
            return (await client.create_token(lifetime_s=LIFETIME_S, note=NOTE)).token
        except FailedPrecondition:
            # Without a signing key the controller makes none; what opens a session then is the token itself.
            return target.read_token() or ""

    return make
