"""The command `iris-fed`. Modules are one noun each and load what is heavy only when they run."""

import os
import sys
import traceback
from typing import NoReturn

from iris_fed.cli.exits import CANNOT, INTERRUPTED, PIPE_CLOSED, USAGE
from iris_fed.cli.parse import UsageError
from iris_fed.errors import IrisFedError


def main() -> NoReturn:
    """The entry point: runs the command line of this process and exits with its code.

    The interpreter is not taken down: threads of the HTTP transport that still let go of a finished
    call would abort the process in it (seen in two of five runs), whatever the exit code.
    """
    _open_streams()
    try:
        code = command(sys.argv[1:])
    except KeyboardInterrupt:
        # Before the command itself could take note of it.
        code = INTERRUPTED
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = PIPE_CLOSED
    except OSError:
        code = code or CANNOT
    os._exit(code)


def _open_streams() -> None:
    """A stream that was closed by whoever started this is one that nobody reads, or that is at its end."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def command(arguments: list[str]) -> int:
    """Run one command line and return its exit code; what goes wrong is said on stderr, in one line."""
    for word in arguments:
        try:
            word.encode()
        except UnicodeEncodeError:
            shown = word.encode("utf-8", "backslashreplace").decode()
            return _explain(UsageError(f"'{shown}' is no UTF-8, which names, commands and values must be"))
    debug = bool(os.environ.get("IRIS_FED_DEBUG")) or "--debug" in arguments[: _first_command(arguments)]
    try:
        return run(arguments)
    except BrokenPipeError:
        return PIPE_CLOSED
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _explain(error)


def run(arguments: list[str]) -> int:
    """Run one command line. Raises what `main` turns into a sentence and an exit code."""
    from iris_fed.cli.app import app

    try:
        outcome = app(arguments, prog_name="iris-fed", standalone_mode=False, obj=tuple(arguments))
    except KeyboardInterrupt:
        print("iris-fed: interrupted", file=sys.stderr)
        return INTERRUPTED
    except SystemExit as end:  # how a shell's completion ends
        outcome = end.code
    return outcome if isinstance(outcome, int) else 0


def _explain(error: Exception) -> int:
    """One line on stderr that says what is wrong, and the exit code that goes with it."""
    from iris_fed.cli.terminal import one_line

    if type(error).__name__ == "NoArgsIsHelpError":
        print(error, file=sys.stderr)
        return USAGE
    sentence, code = _sentence(error)
    print(f"iris-fed: {one_line(sentence)}", file=sys.stderr)
    return code


def _sentence(error: Exception) -> tuple[str, int]:
    if isinstance(error, IrisFedError):
        return error.message, CANNOT
    if isinstance(error, UsageError):
        return str(error), USAGE
    if hasattr(error, "format_message"):
        return f"{error.format_message().rstrip('.')} (see `iris-fed --help`)", USAGE
    if type(error).__name__ == "Abort":
        return "interrupted", INTERRUPTED
    if isinstance(error, OSError):
        return (f"{error.strerror}: {error.filename}" if error.filename else error.strerror or str(error)), CANNOT
    return f"unexpected {type(error).__name__}: {error} (set IRIS_FED_DEBUG=1 to see where)", CANNOT


def _first_command(arguments: list[str]) -> int:
    return next((index for index, word in enumerate(arguments) if not word.startswith("-")), len(arguments))
