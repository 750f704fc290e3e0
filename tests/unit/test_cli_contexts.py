from pathlib import Path

import pytest

from iris_fed.client.contexts import (
    Context,
    Contexts,
    Target,
    choose_target,
    read_contexts,
    write_contexts,
)
from iris_fed.errors import InvalidArgument

KNOWN = Contexts(
    current="lab",
    contexts={
        "lab": Context("http://127.0.0.1:1", "/lab.token"),
        "far": Context("https://far.example.org"),
    },
)


def test_an_explicit_url_beats_everything() -> None:
    environ = {"IRIS_FED_CONTROLLER": "http://127.0.0.1:9", "IRIS_FED_TOKEN": "t"}
    assert choose_target("https://a.org/", None, environ, KNOWN) == Target("https://a.org", token="t")


def test_a_named_context_beats_the_environment_and_uses_its_own_token() -> None:
    environ = {"IRIS_FED_CONTROLLER": "http://127.0.0.1:9", "IRIS_FED_TOKEN": "of-another-cluster"}
    assert choose_target(None, "lab", environ, KNOWN) == Target("http://127.0.0.1:1", token_file="/lab.token")


def test_a_context_without_a_token_takes_the_one_of_the_environment() -> None:
    assert choose_target(None, "far", {"IRIS_FED_TOKEN": "t"}, KNOWN) == Target("https://far.example.org", token="t")


def test_the_environment_beats_the_current_context() -> None:
    assert (
        choose_target(None, None, {"IRIS_FED_CONTROLLER": "http://127.0.0.1:9"}, KNOWN).address == "http://127.0.0.1:9"
    )
    assert choose_target(None, None, {"IRIS_FED_CONTEXT": "far"}, KNOWN).address == "https://far.example.org"
    assert choose_target(None, None, {}, KNOWN).address == "http://127.0.0.1:1"


def test_inside_a_task_its_controller_beats_a_contexts_file_that_happens_to_lie_there() -> None:
    environ = {"IRIS_CONTROLLER_URL": "http://10.0.0.7:80", "IRIS_TASK_TOKEN": "mine"}
    assert choose_target(None, None, environ, KNOWN) == Target("http://10.0.0.7:80", token="mine")
    chosen = environ | {"IRIS_FED_CONTEXT": "far"}
    assert choose_target(None, None, chosen, KNOWN) == Target("https://far.example.org")


def test_a_url_that_a_context_names_brings_that_contexts_token() -> None:
    assert choose_target("http://127.0.0.1:1", None, {}, KNOWN).token_file == "/lab.token"
    assert choose_target("http://127.0.0.1:2", None, {}, KNOWN).token_file == ""


def test_a_token_never_goes_over_plain_http_to_another_machine() -> None:
    with pytest.raises(InvalidArgument, match="plain http"):
        choose_target("http://far.example.org", None, {"IRIS_FED_TOKEN": "t"}, KNOWN)


def test_without_any_controller_the_three_ways_are_named() -> None:
    with pytest.raises(InvalidArgument, match=r"--controller.*IRIS_FED_CONTROLLER.*context add"):
        choose_target(None, None, {}, Contexts())


def test_an_unknown_context_is_refused_with_the_known_names() -> None:
    with pytest.raises(InvalidArgument, match=r"'nowhere' \(known: far, lab\)"):
        choose_target(None, "nowhere", {}, KNOWN)


@pytest.mark.parametrize("url", ["lab:8478", "ftp://lab", "http://", "https://me:secret@lab"])
def test_a_url_that_is_none_is_refused_without_repeating_a_secret(url: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        choose_target(url, None, {}, KNOWN)
    assert "secret" not in str(refused.value)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "contexts.yaml"
    write_contexts(path, KNOWN)
    assert read_contexts(path) == KNOWN
    assert path.stat().st_mode & 0o077 == 0


def test_an_absent_file_holds_no_context(tmp_path: Path) -> None:
    assert read_contexts(tmp_path / "none.yaml") == Contexts()


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "contexts: [a]",
        "contexts: {a: {}}",
        "contexts: {a: {controller: nonsense}}",
        "a: [",
        "contexts: {a: {controller: 'http://x', tokn: y}}",
    ],
)
def test_a_malformed_file_is_refused_with_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "contexts.yaml"
    path.write_text(text)
    with pytest.raises(InvalidArgument):
        read_contexts(path)


def test_a_token_file_that_cannot_be_read_is_named() -> None:
    with pytest.raises(InvalidArgument, match="/no/such/token"):
        Target("http://127.0.0.1:1", token_file="/no/such/token").read_token()
