"""What keeps a controller from starting: one line that says what to do, and no traceback."""

import contextlib
import socket
import sqlite3
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.clusters import Cluster
from tests.e2e.command import all_at_once, iris_fed


def _refusal(cluster: Cluster) -> str:
    """The one line with which the controller refuses to start."""
    ended = iris_fed("serve", "--config", str(cluster.write_config()))
    assert (ended.code, ended.out) == (125, "")
    (line,) = ended.err.splitlines()
    assert line.startswith("iris-fed: ")
    return line


@pytest.fixture
def lab(tmp_path: Path, own: list[Cluster]) -> Cluster:
    own.append(Cluster.make(tmp_path, "lab"))
    return own[0]


MISTAKES: list[tuple[dict[str, object], str]] = [
    ({"listen": {"host": "0.0.0.0"}, "auth": {}}, "listen.host: '0.0.0.0' is not a loopback address"),
    ({"peers": [{"name": "far", "address": "http://far.example.org"}]}, "use https://far.example.org"),
    ({"auth": {"signing_key": "file:absent.pem", "nonce_key": "file:nonce.key"}}, "absent.pem"),
    ({"auth": {"signing_key": "file:nonce.key", "nonce_key": "file:signing-key.pem"}}, "auth.signing_key"),
    ({"cluster": {"name": "local"}}, "cluster.name"),
    ({"state_dir": "iris-fed.yaml"}, "state directory"),
    ({"state_dir": "/proc/nothing/here"}, "/proc/nothing/here"),
]
"""What is configured otherwise, and what is said of it."""


def test_a_configuration_that_cannot_work_is_refused(tmp_path: Path, own: list[Cluster]) -> None:
    def refusal(number: int, settings: dict[str, object]) -> str:
        lab = Cluster.make(tmp_path, "lab", directory=f"lab-{number}")
        own.append(lab)
        peers = {"peers": [{"name": "hub", "address": "http://127.0.0.1:9"}]} if settings.get("auth") else {}
        lab.settings |= peers | settings
        return _refusal(lab)

    calls = [partial(refusal, number, settings) for number, (settings, _) in enumerate(MISTAKES)]
    for (_, says), line in zip(MISTAKES, all_at_once(calls), strict=True):
        assert says in line


def test_a_port_that_is_taken_is_named(lab: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        lab.port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1:{lab.port}" in _refusal(lab)


def test_a_second_controller_a_changed_name_and_a_newer_database_are_refused(lab: Cluster, tmp_path: Path) -> None:
    lab.start()
    assert lab.process is not None
    second = Cluster.make(tmp_path, "lab", directory="second")
    second.settings["state_dir"] = str(lab.state_dir)
    assert f"in use by another controller (process {lab.process.pid})" in _refusal(second)
    assert lab.stop() == 0
    for launcher in lab.launchers():
        launcher.terminate()
        launcher.wait(10.0)

    renamed = Cluster("hub", lab.directory, lab.settings)
    assert "lab" in _refusal(renamed)
    with contextlib.closing(sqlite3.connect(lab.state_dir / "controller.db")) as database, database:
        database.execute("INSERT INTO schema_migrations VALUES (9999, 'of_tomorrow', 'x', 0)")
    assert "newer version (migration 9999_of_tomorrow)" in _refusal(lab)
