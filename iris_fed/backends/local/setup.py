"""Setup commands: one shell runs them, then becomes the task. Pure."""

import shlex
from collections.abc import Sequence

_MARK = "iris-fed:setup-done:"


def setup_marker(attempt_uid: str) -> bytes:
    """A line that the shell writes when setup is done; the launcher takes it out of the output."""
    return f"\x1e{_MARK}{attempt_uid}\n".encode()


def with_setup(commands: Sequence[str], argv: Sequence[str], attempt_uid: str) -> list[str]:
    """The command line that runs `commands` in a section of their own and then `argv`.

    One shell runs all, so that a change of directory or environment is kept; `set -e` ends it at
    the first command that fails, with that command's exit code.
    """
    lines = ["set -e"]
    for number, command in enumerate(commands, 1):
        title = command.strip().partition("\n")[0][:200]
        lines.append(f"printf '%s\\n' {shlex.quote(f'--- setup {number}/{len(commands)}: {title}')}")
        lines.append(command)
    lines += ["set +e", "printf '%s\\n' '--- run'", f"printf '\\036{_MARK}{attempt_uid}\\n'", 'exec "$@"']
    return ["/bin/sh", "-c", "\n".join(lines), "sh", *argv]
