"""The help, and the page that is made of it."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from iris_fed.cli.app import app
from iris_fed.cli.docs import example_lines, page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


def _leaves(command: Any, path: tuple[str, ...] = ("iris-fed",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, below in getattr(command, "commands", {}).items():
        yield from _leaves(below, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command


LEAVES = list(_leaves(typer.main.get_command(app)))


def test_the_page_of_all_commands_is_what_the_commands_say_now() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m iris_fed.cli.docs > docs/cli.md"


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_every_command_shows_an_example_that_it_would_take(path: tuple[str, ...], command: Any) -> None:
    lines = example_lines(command)
    assert lines
    for line in lines:
        words = shlex.split(line)
        assert tuple(words[: len(path)]) == path
        assert command.make_context(path[-1], words[len(path) :]).params
