"""Writes docs/states.md from the transition tables: `python -m iris_fed.cli.states_page > docs/states.md`."""

import sys
from collections.abc import Mapping
from typing import Any

from iris_fed.model import states

INTRO = """\
# States

Generated from `iris_fed/model/states.py` (`python -m iris_fed.cli.states_page > docs/states.md`). A change that
is not in these tables raises, wherever it comes from. A job that runs on a peer follows the peer's word
instead: any state may follow any other until the job has ended.
"""
TABLES: Mapping[str, tuple[str, Mapping[Any, frozenset[Any]]]] = {
    "Job": (
        "Follows from its tasks. With every task waiting for its next attempt it is PENDING again.",
        states.JOB_TRANSITIONS,
    ),
    "Task": ("Back to PENDING is a retry: the attempt has ended, the task goes on.", states.TASK_TRANSITIONS),
    "Attempt": ("One try; never taken up again.", states.ATTEMPT_TRANSITIONS),
    "Handle on the parent": (
        "One incarnation of a handoff. Only *lost* can be taken back.",
        states.SENT_TRANSITIONS,
    ),
    "Handle on the peer": ("Replay record, fence and tombstone in one.", states.RECEIVED_TRANSITIONS),
}


def page() -> str:
    """The whole page as Markdown."""
    parts = [INTRO]
    for name, (words, table) in TABLES.items():
        parts += [f"\n## {name}\n\n{words}\n", "| from | to |", "|---|---|"]
        parts += [f"| {state} | {', '.join(sorted(following))} |" for state, following in table.items() if following]
        ends = sorted(state for state, following in table.items() if not following)
        parts.append(f"| {', '.join(ends)} | nothing: an end |")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
