"""Who is believed, as it is configured: what is accepted, and what keeps a controller from starting."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from iris_fed.config.load import load_settings
from iris_fed.config.settings import Settings
from iris_fed.config.show import effective_yaml
from iris_fed.errors import ConfigError

Load = Callable[..., Settings]
PEM = "-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----"


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def from_sections(**sections: Any) -> Settings:
        path = tmp_path / "lab.yaml"
        path.write_text(yaml.safe_dump({"cluster": {"name": "lab"}, **sections}))
        return load_settings(path, {})

    return from_sections


def refusal(load: Load, **sections: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load(**sections)
    return caught.value.message


def test_by_default_nobody_but_the_admin_token_gets_in(load: Load) -> None:
    auth, listen = load().auth, load().listen
    assert not auth.tells_callers_apart
    assert not auth.lists_bind
    assert listen.own_hosts == {"localhost", "127.0.0.1", "::1"}
    assert (auth.users_see_all, auth.dashboard_reads_content, auth.trusted_cidrs) == (True, False, [])


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "lab.example.org"])
@pytest.mark.parametrize(
    "auth",
    [
        {"iap": {"signed_header_audience": "/projects/1/x"}},
        {"signing_key": "env:KEY"},
        {"trusted_cidrs": ["10.0.0.0/8"]},
        {"federation_peers": {"hub": {"public_keys": [PEM]}}},
    ],
)
def test_other_machines_reach_only_a_controller_that_can_tell_who_asks(
    load: Load, host: str, auth: dict[str, Any]
) -> None:
    assert load(listen={"host": host}, auth=auth).listen.is_exposed
    words = refusal(load, listen={"host": host}, auth={"admin_users": ["alice@lab.org"]})
    assert f"listen.host: '{host}' is not a loopback address" in words
    assert "configure auth.iap" in words


def test_a_controller_answers_to_its_own_address_and_the_names_it_is_given(load: Load) -> None:
    listen = {"host": "10.1.2.3", "allowed_hosts": ["Lab.example.org", "[FD00::1]"]}
    own = load(listen=listen, auth={"signing_key": "env:KEY"}).listen.own_hosts
    assert own == {"localhost", "127.0.0.1", "::1", "10.1.2.3", "lab.example.org", "fd00::1"}
    every = load(listen={"host": "0.0.0.0"}, auth={"signing_key": "env:KEY"}).listen.own_hosts
    assert every == {"localhost", "127.0.0.1", "::1"}


@pytest.mark.parametrize(
    "host", ["", "*", "*.lab.org", "https://lab.org", "lab.org:80", "lab.org/x", "a b", "lab.org."]
)
def test_what_is_no_host_is_refused(load: Load, host: str) -> None:
    assert "is no host" in refusal(load, listen={"allowed_hosts": [host]})


@pytest.mark.parametrize(
    "pattern", ["*", "*@*", "*@", "@lab.org", "a*@lab.org", "alice@lab", "a b@lab.org", "", "å@b.org"]
)
@pytest.mark.parametrize("field", ["admin_users", "users"])
def test_a_list_names_people_or_whole_domains_and_never_everybody(load: Load, field: str, pattern: str) -> None:
    assert "names nobody" in refusal(load, auth={field: [pattern]})


def test_lists_are_read_in_any_case(load: Load) -> None:
    auth = load(auth={"admin_users": ["Alice@Lab.org"], "users": ["*@LAB.org", "Bob"], "user_domain": "LAB.org"}).auth
    assert (auth.admin_users, auth.users, auth.user_domain) == (["alice@lab.org"], ["*@lab.org", "bob"], "lab.org")
    assert auth.lists_bind


@pytest.mark.parametrize("pattern", ["**", "?lice@lab.org", "alice@*", "[a-z]@lab.org", "*@*.org", "", " "])
def test_an_allowed_submitter_is_a_person_a_domain_or_everybody(load: Load, pattern: str) -> None:
    trust = {"public_keys": [PEM], "allowed_submitters": [pattern]}
    assert "is no submitter" in refusal(load, auth={"federation_peers": {"hub": trust}})


@pytest.mark.parametrize(
    ("auth", "words"),
    [
        ({"trusted_cidrs": ["10.0.0.1/8"]}, "is no network like"),
        ({"trusted_cidrs": ["lab"]}, "is no network like"),
        ({"trusted_cidrs": ["0.0.0.0/0"]}, "/0 is everybody"),
        ({"trusted_cidrs": ["::/0"]}, "/0 is everybody"),
        ({"trusted_network_role": "admin"}, "trusted_network_role"),
        ({"iap": {"keys_url": "http://keys.example.org"}}, "http:// is for loopback only"),
        ({"iap": {"signed_header_audience": ""}}, "signed_header_audience"),
        ({"user_domain": "lab"}, "is no domain"),
        ({"user_token_days": 0}, "user_token_days"),
        ({"user_token_days": 1000}, "user_token_days"),
        ({"previous_signing_keys": ["-----BEGIN PRIVATE KEY-----"]}, "a public key is PEM text"),
    ],
)
def test_what_would_open_more_than_was_meant_is_refused(load: Load, auth: dict[str, Any], words: str) -> None:
    assert words in refusal(load, auth=auth)


def test_files_of_keys_start_at_the_files_folder_and_the_whole_can_be_read_back(load: Load, tmp_path: Path) -> None:
    settings = load(auth={"previous_signing_keys": ["file:old.pem", PEM], "signing_key": "file:new.pem"})
    assert settings.auth.previous_signing_keys == [f"file:{tmp_path}/old.pem", PEM]
    again = tmp_path / "again.yaml"
    again.write_text(effective_yaml(settings))
    assert load_settings(again, {}) == settings
