"""What a tab offers when things are not as they should be; what it offers else is tested end to end."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from iris_fed.cli import command, complete


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of somebody who takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture(autouse=True)
def _config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("IRIS_FED_CONTROLLER", "IRIS_FED_CONTEXT", "IRIS_CONTROLLER_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def _after_tab(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setenv("_IRIS_FED_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    return command([])


def _nothing_in(capsys: pytest.CaptureFixture[str]) -> bool:
    """An empty line offers nothing either."""
    shown = capsys.readouterr()
    return (shown.out.strip(), shown.err) == ("", "")


def test_a_controller_that_never_answers_delays_the_shell_by_no_more_than_the_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], silent: str
) -> None:
    monkeypatch.setattr(complete, "LIMIT_S", 0.1)
    monkeypatch.setenv("IRIS_FED_CONTROLLER", silent)
    for words in (["job", "describe", ""], ["job", "run", "--target-cluster", ""], ["job", "list", "--backend", ""]):
        assert _after_tab(monkeypatch, "iris-fed", *words) == 0
    assert _nothing_in(capsys)


@pytest.mark.parametrize("controller", [None, "nonsense", "http://127.0.0.1:1"])
def test_without_a_controller_nothing_is_offered_and_nothing_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], controller: str | None
) -> None:
    if controller:
        monkeypatch.setenv("IRIS_FED_CONTROLLER", controller)
    assert _after_tab(monkeypatch, "iris-fed", "job", "describe", "") == 0
    assert _nothing_in(capsys)


def test_contexts_are_offered_from_their_file_and_a_broken_one_offers_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "iris-fed" / "contexts.yaml"
    file.parent.mkdir()
    file.write_text("contexts: {hub: {controller: 'http://127.0.0.1:1'}, lab: {controller: 'http://127.0.0.1:2'}}")
    _after_tab(monkeypatch, "iris-fed", "context", "use", "l")
    assert capsys.readouterr() == ("lab\n", "")
    file.write_text("contexts: [")
    _after_tab(monkeypatch, "iris-fed", "context", "use", "l")
    assert _nothing_in(capsys)
