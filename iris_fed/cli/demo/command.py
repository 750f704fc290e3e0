"""`iris-fed demo`: its flags and its exit code."""

from typing import Annotated

import typer

from iris_fed.cli.exits import CHECK_FAILED, INTERRUPTED, TERMINATED


def demo(
    once: Annotated[
        bool, typer.Option("--once", help="End after the last scene: 0 when all went as it should, else 1.")
    ] = False,
) -> None:
    """Run two clusters on this machine and hand jobs from one to the other.

    Everything is temporary and on this machine only; nothing is left when it ends.
    """
    import asyncio

    from iris_fed.cli.demo.performance import Outcome, perform
    from iris_fed.cli.session import run_async
    from iris_fed.cli.terminal import say
    from iris_fed.errors import IrisFedError

    outcome = Outcome()
    try:
        run_async(perform(outcome, stay=not once))
    except KeyboardInterrupt:
        say("stopped; nothing is left running")
        if not outcome.played:
            raise typer.Exit(INTERRUPTED) from None
    except asyncio.CancelledError:
        raise typer.Exit(TERMINATED) from None
    except IrisFedError as error:
        say(f"iris-fed: {error.message}")
        raise typer.Exit(CHECK_FAILED) from None
    if outcome.failures or not outcome.played:
        raise typer.Exit(CHECK_FAILED)
