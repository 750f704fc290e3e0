"""Setup commands: one shell runs them, then becomes the task. Pure."""

import shlex
from collections.abc import Sequence

SCRIPT = "setup.sh"
_STEP = "_iris_step"


def setup_marker(token: str) -> bytes:
    """A line that the shell writes when setup is done; the launcher takes it out of the output.
    `token` is not known to the commands, so that nothing they print passes for it."""
    return f"\x1e{_mark(token)}\n".encode()


def setup_script(commands: Sequence[str], token: str) -> str:
    """A script that runs `commands`, each in a section of its own, and then its arguments.

    One shell runs all, so that a change of directory or environment is kept; the first command that
    fails ends it with its exit code. Each is a function call with `eval`, so that what it does to
    positional parameters, or leaves unfinished, does not reach the next. The marker goes to the
    first output even if a command sent the shell's elsewhere.
    """
    lines = ["set -e", "exec 9>&1", f'{_STEP}() {{ eval "$1"; }}']
    for number, command in enumerate(commands, 1):
        title = command.strip().partition("\n")[0][:200]
        lines.append(f"printf '%s\\n' {shlex.quote(f'--- setup {number}/{len(commands)}: {title}')}")
        lines.append(f"{_STEP} {shlex.quote(command)}")
    lines += ["{ set +ex; } 2>/dev/null", "printf '%s\\n' '--- run'"]
    lines += [f"printf '\\036{_mark(token)}\\n' >&9", 'exec "$@" 9>&-']
    return "\n".join(lines) + "\n"


def _mark(token: str) -> str:
    return f"iris-fed:setup-done:{token}"
