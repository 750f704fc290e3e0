from pathlib import Path

import pytest

from iris_fed.client.contexts import Context, Contexts, Target, choose_target, read_contexts, write_contexts
from iris_fed.config.edge_tokens import EdgeTokenSource, parse_edge_token
from iris_fed.config.load import load_settings
from iris_fed.config.show import effective_yaml
from iris_fed.errors import ConfigError, InvalidArgument
from iris_fed.rpc.connect_client import is_private_url

AUTH = "auth: {signing_key: 'file:k', nonce_key: 'file:n'}\n"
FAR = "https://far.example.org"


@pytest.mark.parametrize(
    ("reference", "source"),
    [
        ("file:/run/token", EdgeTokenSource("file", "/run/token")),
        ("env:EDGE", EdgeTokenSource("env", "EDGE")),
        ("command:get 'a token' --now", EdgeTokenSource("command", "get 'a token' --now", ("get", "a token", "--now"))),
        ("google:12-ab.apps.example.org", EdgeTokenSource("google", "12-ab.apps.example.org")),
    ],
)
def test_each_kind_of_source_is_read_as_written(reference: str, source: EdgeTokenSource) -> None:
    assert parse_edge_token(reference) == source


@pytest.mark.parametrize(
    "reference",
    ["eyJhbGciOi.secret", "env:not a name secret", "command:", "command:get 'secret", "google: ", "file:", "", "a\nb"],
)
def test_what_is_no_source_is_refused_without_being_repeated(reference: str) -> None:
    with pytest.raises(ValueError, match=r"edge token|command|inline") as refused:
        parse_edge_token(reference)
    assert "secret" not in str(refused.value)


def _config(tmp_path: Path, edge_token: str) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text(
        f"cluster: {{name: hub}}\n{AUTH}peers:\n  - {{name: lab, address: '{FAR}', edge_token: '{edge_token}'}}\n"
    )
    return path


def test_a_peers_token_file_lies_beside_the_configuration(tmp_path: Path) -> None:
    (peer,) = load_settings(_config(tmp_path, "file:edge"), {}).peers
    assert peer.edge_token == f"file:{tmp_path / 'edge'}"


def test_the_words_of_a_peers_command_are_not_shown(tmp_path: Path) -> None:
    shown = effective_yaml(load_settings(_config(tmp_path, "command:get --key hunter2"), {}))
    assert "command:****" in shown
    assert "hunter2" not in shown


def test_a_token_written_inline_is_refused_with_its_place_but_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"peers\.0\.edge_token: an edge token comes from") as refused:
        load_settings(_config(tmp_path, "eyJ.hunter2"), {})
    assert "hunter2" not in str(refused.value)


def test_the_clients_variable_is_no_setting_of_a_controller(tmp_path: Path) -> None:
    load_settings(_config(tmp_path, "env:EDGE"), {"IRIS_FED_EDGE_TOKEN": "env:EDGE"})


def test_a_context_keeps_its_edge_token_to_its_own_controller(tmp_path: Path) -> None:
    known = Contexts("far", {"far": Context(FAR, "/t", "command:get"), "near": Context("http://127.0.0.1:1", "/n")})
    write_contexts(tmp_path / "contexts.yaml", known)
    assert read_contexts(tmp_path / "contexts.yaml") == known
    environ = {"IRIS_FED_EDGE_TOKEN": "env:OTHER"}
    assert choose_target(None, None, environ, known) == Target(FAR, token_file="/t", edge_token="command:get")
    assert choose_target(None, "near", environ, known) == Target("http://127.0.0.1:1", token_file="/n")
    assert choose_target(FAR, None, {}, known).edge_token == "command:get"
    assert choose_target("https://else.org", None, environ, known) == Target("https://else.org", edge_token="env:OTHER")


def test_an_edge_token_never_goes_over_plain_http_to_another_machine() -> None:
    with pytest.raises(InvalidArgument, match="plain http"):
        choose_target("http://far.example.org", None, {"IRIS_FED_EDGE_TOKEN": "env:EDGE"}, Contexts())
    assert [is_private_url(url) for url in ("https://a.org", "http://[::1]:5", "http://a.org", "http://10.0.0.1")] == [
        True,
        True,
        False,
        False,
    ]
