"""What goes to the terminal, and what must not: text that a peer or a task wrote could drive it.

Tables and sentences never carry control characters. Output of tasks is stripped for a terminal and
raw for a pipe or a file.
"""

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

WIDTH_WITHOUT_TERMINAL = 4096
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC and other strings: titles, links, clipboard
    r"|\x1b[ -/]*[0-~]?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
    r"|[\x90\x98\x9d-\x9f][^\x07\x1b\x9c]*(?:\x07|\x9c|\x1b\\)?"
)
# C0 but tab and newline, DEL, C1, line separators, bidirectional marks and overrides.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_STATE_STYLES = {
    "SUCCEEDED": "green",
    "RUNNING": "cyan",
    "PENDING": "yellow",
    "FAILED": "red",
    "WORKER_FAILED": "red",
    "UNSCHEDULABLE": "red",
    "ok": "green",
    "FAIL": "red",
    "yes": "green",
    "no": "red",
}


def strip_controls(text: str) -> str:
    """The text without escape sequences, control characters but tab and newline, and bidi overrides."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))


def one_line(text: str) -> str:
    """As `strip_controls`, and on one line."""
    return " ".join(strip_controls(text).split())


def strip_control_bytes(data: bytes) -> bytes:
    """As `strip_controls`, for output of any bytes; what is not UTF-8 becomes U+FFFD."""
    return strip_controls(data.decode("utf-8", "replace")).encode()


def say(sentence: str) -> None:
    """Progress, to stderr."""
    print(one_line(sentence), file=sys.stderr, flush=True)


def print_json(document: Any) -> None:
    """One document to stdout. ASCII only, so it is free of controls whatever it holds."""
    print(json.dumps(document, indent=2, ensure_ascii=True), flush=True)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns to stdout: as wide as the terminal, or as wide as it takes."""
    print(render_table(columns, rows, sys.stdout.isatty()), flush=True)


def render_table(columns: Sequence[str], rows: Sequence[Sequence[str]], on_terminal: bool) -> str:
    """The last column gives way first when a terminal is too narrow; colours on a terminal only."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold" if on_terminal else "")
    for name in columns:
        last = name == columns[-1]
        table.add_column(name, no_wrap=not (last and on_terminal), overflow="fold" if last else "ellipsis")
    for row in rows:
        cells = [one_line(cell) for cell in row]
        table.add_row(*(Text(cell, style=_STATE_STYLES.get(cell, "")) for cell in cells))
    console = Console(
        force_terminal=on_terminal,
        color_system="auto" if on_terminal else None,
        width=None if on_terminal else WIDTH_WITHOUT_TERMINAL,
        highlight=False,
        legacy_windows=False,
    )
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n"))


def print_fields(fields: Sequence[tuple[str, str]]) -> None:
    """`name: value` lines, aligned, without the empty ones."""
    shown = [(name, value) for name, value in fields if value]
    width = max((len(name) for name, _ in shown), default=0) + 2
    for name, value in shown:
        print(f"{name + ':':<{width}}{one_line(value)}")
