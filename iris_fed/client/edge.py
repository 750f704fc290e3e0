"""The edge token of a program of a person's: what its source complains about is seen on the terminal."""

from iris_fed.auth import edge_tokens
from iris_fed.clock import SystemClock
from iris_fed.errors import InvalidArgument


def open_edge_token(reference: str) -> edge_tokens.EdgeToken:
    """Raises InvalidArgument for what says no source."""
    try:
        return edge_tokens.open_edge_token(reference, SystemClock(), quiet=False)
    except ValueError as error:
        raise InvalidArgument(str(error)) from error
