"""A proxy in front of a controller that wants a token of its own: the peer's way through it, and the command's."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from iris_fed.client import Client
from tests.e2e.clusters import Cluster
from tests.e2e.command import clean_environment, iris_fed, poll
from tests.e2e.edge_proxy import REFUSAL, EdgeProxy

REFUSED = f"something in front of the controller refused: HTTP 401: {REFUSAL.decode()}"


@pytest.fixture
def lab(tmp_path: Path, own: list[Cluster]) -> Cluster:
    own.append(
        Cluster.make(
            tmp_path,
            "lab",
            backends=[{"id": "local", "devices": {"h100": 8}, "kill_grace_s": 1.0, "shared_uid": "accept"}],
        )
    )
    return own[0]


@pytest.fixture
def proxy(lab: Cluster) -> Iterator[EdgeProxy]:
    lab.start()
    with EdgeProxy(lab.url, "first-edge-token") as proxy:
        yield proxy


@pytest.fixture
def edge_file(tmp_path: Path) -> Path:
    path = tmp_path / "edge"
    path.write_text("first-edge-token\n")
    return path


def peer_row(hub: Cluster, peer: str) -> str:
    return next(line for line in hub.run("peer", "list").out.splitlines() if line.startswith(f"{peer} "))


def until_problem(hub: Cluster, peer: str, problem: str) -> None:
    poll(lambda: problem in peer_row(hub, peer), f"{peer}: {problem}", 20.0)


def test_a_peer_behind_a_proxy_is_reached_with_the_token_of_a_command_and_each_new_one(
    tmp_path: Path, own: list[Cluster], lab: Cluster, edge_file: Path
) -> None:
    hub = Cluster.make(tmp_path, "hub")
    own.append(hub)
    lab.settings["auth"]["federation_peers"] = {"hub": {"public_keys": [hub.public_key], "allowed_submitters": ["*"]}}
    lab.start()
    with EdgeProxy(lab.url, "first-edge-token") as proxy:
        hub.settings["peers"] = [
            {"name": "lab", "address": proxy.url, "edge_token": f"command:cat {shlex.quote(str(edge_file))}"},
            {"name": "far", "address": f"http://localhost:{proxy.port}", "edge_token": "command:sh -c 'exit 9'"},
            {"name": "bare", "address": f"http://127.0.0.2:{proxy.port}"},
        ]
        hub.start()
        ran = hub.run("job", "run", "--gpu", "H100", "--", "echo", "far away")
        assert (ran.code, ran.out) == (0, "far away\n"), ran

        # A source that fails makes its peer unreachable, and nothing else.
        until_problem(hub, "far", "no edge token for what stands in front of it: sh ended with 9")
        assert peer_row(hub, "far").split()[1:3] == ["no", "never"]
        checked = hub.run("peer", "check", "far")
        assert (checked.code, "sh ended with 9" in checked.out) == (1, True)
        assert hub.run("job", "run", "--", "echo", "near").out == "near\n"

        proxy.accepted = {"second-edge-token"}
        until_problem(hub, "lab", REFUSED)
        edge_file.write_text("second-edge-token\n")
        poll(lambda: peer_row(hub, "lab").split()[1] == "yes", "lab is reached again", 20.0)
        assert hub.run("job", "run", "--gpu", "H100", "--", "echo", "again").out == "again\n"

    for cluster in (hub, lab):
        assert "edge-token" not in cluster.log.replace("no edge token", "")
        assert b"first-edge-token" not in b"".join(p.read_bytes() for p in cluster.state_dir.glob("controller.db*"))


def test_the_command_goes_through_a_proxy_once_it_is_logged_in(
    tmp_path: Path, lab: Cluster, proxy: EdgeProxy, edge_file: Path
) -> None:
    env = clean_environment(XDG_CONFIG_HOME=str(tmp_path / "config"))
    admin = (lab.state_dir / "admin.token").read_text()
    refused = iris_fed("login", proxy.url, "--token-stdin", env=env, text=admin)
    assert refused.code == 125
    assert REFUSED in refused.err
    assert not (tmp_path / "config").exists()

    command = f"cat {shlex.quote(str(edge_file))}"
    logged_in = iris_fed("login", proxy.url, "--token-stdin", "--edge-token-command", command, env=env, text=admin)
    assert logged_in.code == 0, logged_in
    assert "the current context is lab" in logged_in.err
    ran = iris_fed("job", "run", "--", "echo", "through", env=env)
    assert (ran.code, ran.out) == (0, "through\n"), ran
    listed = iris_fed("context", "list", env=env)
    assert "command:***" in listed.out
    assert str(edge_file) not in listed.out

    edge_file.unlink()
    without = iris_fed("job", "list", env=env)
    assert without.code == 125
    assert "no edge token for what stands in front of it: cat ended with 1" in without.err
    assert "first-edge-token" not in lab.log


async def test_a_program_goes_through_a_proxy_with_its_edge_token(
    lab: Cluster, proxy: EdgeProxy, edge_file: Path
) -> None:
    token = (lab.state_dir / "admin.token").read_text().strip()
    async with Client(proxy.url, token=token, edge_token=f"file:{edge_file}") as client:
        assert (await client.info()).cluster == "lab"
    assert (proxy.passed, proxy.refused) == (1, 0)
