"""User tokens by the command, and what `login` keeps of them."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.clusters import ME, Cluster
from tests.e2e.command import Ended, clean_environment, iris_fed


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The environment of somebody with a configuration directory of their own."""
    return clean_environment(XDG_CONFIG_HOME=str(tmp_path / "config"))


def contexts(home: dict[str, str]) -> dict[str, Any]:
    known: dict[str, Any] = yaml.safe_load((Path(home["XDG_CONFIG_HOME"]) / "iris-fed/contexts.yaml").read_text())
    return known


def make(cluster: Cluster, *words: str) -> tuple[str, str]:
    """A token and its id."""
    made = cluster.json("token", "create", *words)
    return made["token"], made["info"]["tokenId"]


def whoami(token: str, cluster: Cluster) -> Ended:
    env = clean_environment(IRIS_FED_CONTROLLER=cluster.url, IRIS_FED_TOKEN=token)
    return iris_fed("job", "list", env=env)


def test_a_token_is_printed_alone_and_listed_without_itself(hub: Cluster) -> None:
    made = hub.run("token", "create", "--user", "zoe@lab.org", "--expires", "7d", "--name", "her laptop")
    assert made.code == 0
    (token,) = made.out.splitlines()
    assert token.count(".") == 2
    assert token not in made.err
    listed = hub.run("token", "list", "--user", "zoe@lab.org")
    header, row = listed.out.splitlines()
    assert header.split()[:3] == ["ID", "USER", "ROLE"]
    assert row.split()[1:3] == ["zoe@lab.org", "user"]
    assert "in 6d23h" in row
    assert "her laptop" in row
    assert token not in listed.out
    assert token not in hub.log


def test_a_revoked_token_counts_no_more_at_once(hub: Cluster) -> None:
    token, token_id = make(hub, "--user", "yan@lab.org")
    assert whoami(token, hub).code == 0
    revoked = hub.run("token", "revoke", token_id)
    assert (revoked.code, revoked.out) == (0, "")
    assert token_id in revoked.err
    refused = whoami(token, hub)
    assert refused.code == 125
    assert "revoked" in refused.err
    assert hub.run("token", "revoke", token_id).code == 0


def test_all_tokens_of_a_person_go_together(hub: Cluster) -> None:
    tokens = [make(hub, "--user", "xia@lab.org")[0] for _ in range(2)]
    assert len(hub.json("token", "revoke", "--user", "xia@lab.org")["tokens"]) == 2
    assert [whoami(token, hub).code for token in tokens] == [125, 125]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["token", "create", "--expires", "soon"], 2),
        (["token", "create", "--expires", "1ms"], 2),
        (["token", "create", "--expires", "300d"], 125),
        (["token", "create", "--role", "emperor"], 125),
        (["token", "revoke"], 2),
        (["token", "revoke", "no-such-id"], 125),
    ],
)
def test_what_cannot_be_had_is_refused_in_one_line(hub: Cluster, words: list[str], code: int) -> None:
    ended = hub.run(*words)
    assert (ended.code, ended.out) == (code, "")
    assert len(ended.err.splitlines()) == 1


def test_login_keeps_what_the_controller_believed_for_its_owner_only(hub: Cluster, home: dict[str, str]) -> None:
    token, _ = make(hub)
    done = iris_fed("login", hub.url + "/", "--token-stdin", env=home, text=token + "\n")
    assert (done.code, done.out) == (0, ""), done
    assert f"the current context is hub: {hub.url}, as {ME} (admin)" in done.err
    assert token not in done.err
    known = contexts(home)
    assert known["current"] == "hub"
    kept = Path(known["contexts"]["hub"]["token_file"])
    assert kept.is_relative_to(home["XDG_CONFIG_HOME"])
    assert kept.read_text() == token + "\n"
    assert (stat.S_IMODE(kept.stat().st_mode), stat.S_IMODE(kept.parent.stat().st_mode)) == (0o600, 0o700)
    assert iris_fed("job", "list", env=home).code == 0

    out = iris_fed("logout", "--revoke", env=home)
    assert out.code == 0
    assert not kept.exists()
    assert contexts(home) == {"current": "", "contexts": {}}
    assert whoami(token, hub).code == 125
    assert iris_fed("logout", env=home).code == 125


def test_login_keeps_nothing_that_the_controller_does_not_believe(hub: Cluster, home: dict[str, str]) -> None:
    for text in ("irisfed_admin_wrong", "two words", "", "x" * 20_000):
        ended = iris_fed("login", hub.url, "--token-stdin", env=home, text=text)
        assert (ended.code, ended.out) == (125, "")
        assert not text or text not in ended.err
    assert iris_fed("login", hub.url, env=home).code == 2
    assert not Path(home["XDG_CONFIG_HOME"]).exists()


def test_a_token_is_never_sent_in_the_clear(home: dict[str, str]) -> None:
    ended = iris_fed("login", "http://192.0.2.1", "--token-stdin", env=home, text="secret-token")
    assert ended.code == 125
    assert "plain http" in ended.err
    assert "secret-token" not in ended.err


def test_login_does_not_replace_another_controllers_context_unless_it_is_named(
    hub: Cluster, home: dict[str, str], tmp_path: Path
) -> None:
    assert iris_fed("context", "add", "hub", "--controller", "https://other.example.org", env=home).code == 0
    (tmp_path / "t").write_text(make(hub)[0])
    refused = iris_fed("login", hub.url, "--token-file", str(tmp_path / "t"), env=home)
    assert refused.code == 125
    assert "--name" in refused.err
    assert iris_fed("login", hub.url, "--token-file", str(tmp_path / "t"), "--name", "here", env=home).code == 0
    assert set(contexts(home)["contexts"]) == {"hub", "here"}
    listed = json.loads(iris_fed("context", "list", "--json", env=home).out)
    assert listed["current"] == "here"


def test_logout_leaves_a_token_file_that_is_not_its_own(hub: Cluster, home: dict[str, str]) -> None:
    assert iris_fed("context", "add", "hub", "--state-dir", str(hub.state_dir), env=home).code == 0
    assert iris_fed("logout", "hub", env=home).code == 0
    assert (hub.state_dir / "admin.token").exists()


def test_a_context_is_added_with_the_source_of_its_edge_token(home: dict[str, str]) -> None:
    words = ("context", "add", "iap", "--controller", "https://iap.example.org", "--edge-token")
    assert iris_fed(*words, "command:gcloud auth print-identity-token", env=home).code == 0
    kept = contexts(home)["contexts"]["iap"]
    assert kept == {
        "controller": "https://iap.example.org",
        "edge_token": "command:gcloud auth print-identity-token",
    }
    refused = iris_fed(*words, "gcloud", env=home)
    assert (refused.code, "--edge-token: " in refused.err) == (2, True), refused
