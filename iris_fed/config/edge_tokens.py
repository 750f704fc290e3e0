"""How it is written where the token for a proxy in front of a controller (Google IAP, say) comes from."""

import shlex
from dataclasses import dataclass
from typing import Literal

from iris_fed.config.references import ENV, FILE, check_reference

COMMAND = "command:"
GOOGLE = "google:"
MAX_REFERENCE = 4_096


@dataclass(frozen=True, slots=True)
class EdgeTokenSource:
    """A path, a variable, the words of a command, or an audience, by `kind`."""

    kind: Literal["file", "env", "command", "google"]
    value: str
    argv: tuple[str, ...] = ()


def parse_edge_token(reference: str) -> EdgeTokenSource:
    """`file:PATH`, `env:NAME`, `command:PROGRAM ARGUMENTS` (split as a shell would, run without one) or
    `google:AUDIENCE`. Raises ValueError, never repeating what was written: it may be a token."""
    if len(reference) > MAX_REFERENCE or not reference.isprintable():
        raise ValueError(f"an edge token's source is one line of at most {MAX_REFERENCE} characters")
    if reference.startswith(COMMAND):
        return _command(reference.removeprefix(COMMAND))
    if reference.startswith(GOOGLE) and (audience := reference.removeprefix(GOOGLE).strip()):
        return EdgeTokenSource("google", audience)
    try:
        check_reference(reference)
    except ValueError:
        raise ValueError(
            "an edge token comes from file:PATH, env:NAME, command:PROGRAM ARGUMENTS or google:AUDIENCE; "
            "it is never written inline"
        ) from None
    if reference.startswith(FILE):
        return EdgeTokenSource("file", reference.removeprefix(FILE))
    return EdgeTokenSource("env", reference.removeprefix(ENV))


def check_edge_token(reference: str) -> str:
    """The reference itself. Raises ValueError."""
    parse_edge_token(reference)
    return reference


def masked(reference: str, mask: str) -> str:
    """The reference for people: a variable's name and a command's words may hold what is secret."""
    for kind in (ENV, COMMAND):
        if reference.startswith(kind):
            return kind + mask
    return reference


def _command(text: str) -> EdgeTokenSource:
    try:
        argv = tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"the command of an edge token cannot be split into words: {error}") from None
    if not argv or not argv[0]:
        raise ValueError("command: names no program")
    return EdgeTokenSource("command", text, argv)
