from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from iris_fed.cli import command
from iris_fed.cli.app import app


@pytest.fixture(autouse=True)
def _no_controller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("IRIS_FED_CONTROLLER", "IRIS_FED_CONTEXT", "IRIS_CONTROLLER_URL", "IRIS_FED_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["job", "list"], 125, "IRIS_FED_CONTROLLER"),
        (["job", "list", "--controller", "http://127.0.0.1:1"], 125, "connection refused"),
        (["job", "list", "--limit", "0"], 2, "--limit"),
        (["job", "list", "--controller", "http://a", "--context", "b"], 2, "not both"),
        (["job", "run", "--gpu", "x8:", "--", "true"], 2, "--gpu"),
        (["job", "logs", "-f", "--json", "x"], 2, "--follow"),
        (["nonsense"], 2, "nonsense"),
        (["serve"], 125, "iris-fed init"),
        (["config", "check", "missing.yaml"], 125, "missing.yaml"),
        (["context", "use", "nowhere"], 125, "nowhere"),
        (["context", "add", "x"], 2, "--state-dir"),
        (["init", "--name", "Not.Legal"], 2, "--name"),
    ],
)
def test_a_mistake_is_one_line_with_what_to_do_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    assert command(arguments) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("iris-fed: ")
    assert says in line


def test_a_noun_without_a_verb_shows_its_verbs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["job"]) == 2
    assert "cancel" in capsys.readouterr().err


def test_init_writes_a_configuration_that_checks_and_keys_for_nobody_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert command(["init", "lab", "--name", "lab"]) == 0
    assert "BEGIN PUBLIC KEY" in capsys.readouterr().out
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "lab").iterdir()}
    assert modes == {"iris-fed.yaml": 0o644, "signing-key.pem": 0o600, "nonce.key": 0o600}
    assert command(["config", "check", "lab/iris-fed.yaml"]) == 0
    assert "name: lab" in capsys.readouterr().out


def test_init_overwrites_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "nonce.key").write_text("precious")
    assert command(["init"]) == 125
    assert (tmp_path / "nonce.key").read_text() == "precious"
    assert not (tmp_path / "iris-fed.yaml").exists()


def test_a_context_that_was_added_is_the_current_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "controller.url").write_text("http://127.0.0.1:8478\n")
    assert command(["context", "add", "lab", "--state-dir", "state"]) == 0
    assert command(["context", "add", "far", "--controller", "https://far.org"]) == 0
    assert command(["context", "use", "lab"]) == 0
    capsys.readouterr()
    assert command(["context", "list"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["*", "lab", "http://127.0.0.1:8478", str(tmp_path / "state" / "admin.token"), "-"] in rows
    assert ["far", "https://far.org", "-", "-"] in rows


def _commands(command: Any, path: str = "iris-fed") -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, sub in getattr(command, "commands", {}).items():
        yield from _commands(sub, f"{path} {name}")


def test_every_command_and_each_of_its_options_is_described() -> None:
    found = dict(_commands(typer.main.get_command(app)))
    assert {"iris-fed serve", "iris-fed job run", "iris-fed peer check", "iris-fed db check"} <= set(found)
    for path, one in found.items():
        assert one.help, path
        for parameter in one.params:
            assert parameter.help or parameter.hidden, f"{path} {parameter.name}"
        if not hasattr(one, "commands"):
            assert command([*path.split()[1:], "--help"]) == 0
