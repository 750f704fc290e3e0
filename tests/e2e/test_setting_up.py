"""From nothing to a controller that serves: `init`, `config check`, `context`, `db check`, help, completion."""

import json
import re
import stat
from functools import partial
from pathlib import Path

import yaml

from tests.e2e.clusters import Cluster
from tests.e2e.command import Ended, all_at_once, clean_environment, iris_fed

SHELLS = ("bash", "zsh", "fish")


def test_what_init_writes_serves_as_it_is_and_a_context_finds_it(tmp_path: Path, own: list[Cluster]) -> None:
    env = clean_environment(XDG_CONFIG_HOME=str(tmp_path / "config"))
    made = iris_fed("init", "first", "--name", "first", env=env, cwd=tmp_path)
    assert (made.code, made.err) == (0, "")
    key = re.search(r"-----BEGIN PUBLIC KEY-----\n.*\n-----END PUBLIC KEY-----", made.out)
    assert key is not None
    home = tmp_path / "first"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()}
    assert modes == {"iris-fed.yaml": 0o644, "signing-key.pem": 0o600, "nonce.key": 0o600}
    again = iris_fed("init", "first", env=env, cwd=tmp_path)
    assert again.code == 125
    assert "is not overwritten" in again.err

    first = Cluster("first", home)
    own.append(first)
    first.serve_as_it_is(IRIS_FED_LISTEN__PORT="0")
    first.until_ready()
    (add_context,) = re.findall(r"iris-fed (context add .*)", made.out)
    added = iris_fed(*add_context.split(), env=env, cwd=tmp_path)
    assert (added.code, added.out) == (0, "")
    ran = iris_fed("job", "run", "--", "echo", "at last", env=env, cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "at last\n")
    checked = iris_fed("db", "check", "--state-dir", str(first.state_dir), "--json")
    assert (checked.code, json.loads(checked.out)["problems"]) == (0, [])


def test_config_check_prints_what_is_in_effect_without_the_secrets(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("PRIVATE")
    file = tmp_path / "c.yaml"
    file.write_text("cluster: {name: lab}\nauth: {signing_key: 'file:key.pem', nonce_key: 'env:NONCE'}\n")
    env = clean_environment(NONCE="hunter2", IRIS_FED_LISTEN__PORT="8500")
    ended = iris_fed("config", "check", str(file), env=env)
    assert (ended.code, ended.err) == (0, "")
    shown = yaml.safe_load(ended.out)
    assert (shown["cluster"]["name"], shown["listen"]["port"]) == ("lab", 8500)
    assert "PRIVATE" not in ended.out
    assert "hunter2" not in ended.out


MISTAKES: list[tuple[str, dict[str, str], str]] = [
    ("cluster: {name: lab}\nlisten: {prot: 1}\n", {}, ":2: listen.prot: unknown key, did you mean 'port'?"),
    ("cluster:\n  name: [unclosed\n", {}, ":3:"),
    ("cluster: {name: lab}\n", {"IRIS_FED_LISTEN__PROT": "1"}, "IRIS_FED_LISTEN__PROT"),
    ("cluster: {name: lab}\n", {"IRIS_FED_LISTEN__PORT": "many"}, "IRIS_FED_LISTEN__PORT: listen.port"),
    ("listen: {port: 0}\n", {}, "cluster: this setting is required"),
]
"""A configuration, variables, and what is said of them."""


def test_a_mistake_in_the_configuration_is_named_with_its_place(tmp_path: Path) -> None:
    def check(number: int, text: str, variables: dict[str, str]) -> Ended:
        file = tmp_path / f"{number}.yaml"
        file.write_text(text)
        return iris_fed("config", "check", str(file), env=clean_environment(**variables))

    calls = [partial(check, number, text, variables) for number, (text, variables, _) in enumerate(MISTAKES)]
    for (_, _, says), ended in zip(MISTAKES, all_at_once(calls), strict=True):
        assert (ended.code, ended.out) == (125, "")
        (line,) = ended.err.splitlines()
        assert says in line


def test_help_and_completion_are_there_before_anything_is_configured() -> None:
    found = all_at_once([partial(iris_fed, "--help"), *(partial(iris_fed, "--show-completion", s) for s in SHELLS)])
    for ended in found:
        assert ended.code == 0
        assert "iris-fed" in ended.out


def test_db_check_tells_a_broken_database_from_none(tmp_path: Path) -> None:
    absent = iris_fed("db", "check", "--state-dir", str(tmp_path))
    assert (absent.code, "there is no database" in absent.err) == (125, True)
    (tmp_path / "controller.db").write_bytes(b"no database at all" * 1000)
    broken = iris_fed("db", "check", "--state-dir", str(tmp_path))
    assert broken.code == 1
    assert "no sound SQLite database" in broken.out
