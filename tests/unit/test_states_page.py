"""The page about states says what the tables say."""

from pathlib import Path

from iris_fed.cli.states_page import page


def test_the_page_about_states_is_current() -> None:
    written = Path(__file__).resolve().parents[2] / "docs" / "states.md"
    assert written.read_text() == page()
