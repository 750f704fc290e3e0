"""`iris-fed dashboard` opens the page signed in, and `/metrics` is answered on a port of its own."""

import json
import re
import stat
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.clusters import Cluster
from tests.e2e.command import iris_fed, poll

HALF_A_DAY_MS = 12 * 3600 * 1000


def sign_in(cluster: Cluster, token: str) -> str:
    """The cookie that the page would get."""
    body, headers = json.dumps({"token": token}).encode(), {"content-type": "application/json"}
    request = urllib.request.Request(f"{cluster.url}/session", body, headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.headers["set-cookie"])


def token_in(address: str, cluster: Cluster) -> str:
    head, _, token = address.strip().partition("#token=")
    assert head == f"{cluster.url}/"
    return token


def test_the_address_signs_in_with_a_fresh_token_of_half_a_day(hub: Cluster) -> None:
    ended = hub.run("dashboard", "--print")
    assert (ended.code, ended.err) == (0, "")
    assert "iris_fed_session=" in sign_in(hub, token_in(ended.out, hub))
    newest = hub.json("token", "list")["tokens"][0]
    assert newest["note"] == "iris-fed dashboard"
    assert int(newest["expiresMs"]) - int(newest["createdMs"]) <= HALF_A_DAY_MS


def test_it_opens_the_browser_that_the_user_chose(hub: Cluster, tmp_path: Path) -> None:
    seen, browser = tmp_path / "seen", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}\n')
    browser.chmod(stat.S_IRWXU)
    ended = hub.run("dashboard", BROWSER=f"{browser} %s")
    assert ended.code == 0
    assert sign_in(hub, token_in(seen.read_text(), hub))
    # What is on the terminal is no secret.
    assert "token" not in ended.out + ended.err


def test_a_controller_without_a_signing_key_is_signed_in_to_with_its_admin_token(
    own: list[Cluster], tmp_path: Path
) -> None:
    plain = Cluster.make(tmp_path, "plain")
    plain.settings["auth"] = {}
    own.append(plain.start())
    token = token_in(plain.run("dashboard", "--print").out, plain)
    assert token == (plain.state_dir / "admin.token").read_text().strip()
    assert sign_in(plain, token)


def test_behind_a_proxy_that_knows_the_user_it_is_just_the_address() -> None:
    env = {"IRIS_FED_CONTROLLER": "https://hub.example.org/iris", "IRIS_FED_EDGE_TOKEN": "env:NO_SUCH", "PATH": "/bin"}
    ended = iris_fed("dashboard", "--print", env=env)
    assert (ended.code, ended.out) == (0, "https://hub.example.org/iris/\n")


def test_metrics_have_a_port_of_their_own_that_answers_nothing_else(own: list[Cluster], tmp_path: Path) -> None:
    cluster = Cluster.make(tmp_path, "solo", listen={"port": 0, "metrics_port": 0})
    own.append(cluster.start())
    found = poll(lambda: re.search(r"http://127\.0\.0\.1:\d+/metrics", cluster.log), "the log tells the port")
    with urllib.request.urlopen(found[0], timeout=10) as answer:
        assert b"iris_fed_event_loop_lag_seconds" in answer.read()
    for url in (f"{cluster.url}/metrics", found[0].replace("/metrics", "/readyz")):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url, timeout=10)
        assert refused.value.code in (403, 404)
        refused.value.close()
