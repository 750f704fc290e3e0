"""Keys as an operator handles them: made, shown, exchanged between two clusters, and followed by new ones."""

import hashlib
import json
import shutil
import stat
import subprocess
from pathlib import Path

import yaml

from tests.e2e.clusters import Cluster
from tests.e2e.command import clean_environment, iris_fed, poll


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_keys_are_made_for_their_owner_only_and_replaced_only_by_force(tmp_path: Path) -> None:
    made = iris_fed("keys", "init", "home", cwd=tmp_path)
    assert made.code == 0
    assert made.out.startswith("-----BEGIN PUBLIC KEY-----\n")
    signing, nonce = tmp_path / "home" / "signing-key.pem", tmp_path / "home" / "nonce.key"
    assert (mode(signing), mode(nonce)) == (0o600, 0o600)
    kept = signing.read_bytes(), nonce.read_bytes()

    again = iris_fed("keys", "init", "home", cwd=tmp_path)
    assert (again.code, again.out) == (125, "")
    assert "is not overwritten" in again.err
    assert (signing.read_bytes(), nonce.read_bytes()) == kept

    forced = iris_fed("keys", "init", "home", "--force", cwd=tmp_path)
    assert forced.code == 0
    assert "until peers list the new public key they refuse" in forced.err
    assert forced.out != made.out
    assert mode(signing) == 0o600
    assert nonce.read_bytes() != kept[1]


def test_the_fingerprint_is_the_same_for_both_halves_and_for_openssl(tmp_path: Path) -> None:
    iris_fed("init", "home", "--name", "home", cwd=tmp_path)
    home = tmp_path / "home"
    own = iris_fed("keys", "show", "--json", cwd=home)
    shown = json.loads(own.out)
    (tmp_path / "home.pub").write_text(shown["publicKey"])
    received = iris_fed("keys", "show", "home.pub", cwd=tmp_path)
    assert received.out == shown["publicKey"]
    assert shown["fingerprint"] in received.err
    openssl = shutil.which("openssl")
    if openssl is not None:
        ended = subprocess.run(
            [openssl, "pkey", "-pubin", "-in", tmp_path / "home.pub", "-outform", "DER"],
            capture_output=True,
            check=True,
        )
        assert shown["fingerprint"] == f"sha256:{hashlib.sha256(ended.stdout).hexdigest()}"
    private = (home / "signing-key.pem").read_text().splitlines()[1]
    assert private not in own.out + own.err


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hunter2")
    for words in (["keys", "show", "x"], ["keys", "show"], ["keys", "rotate", "--activate"], ["keys", "show", "none"]):
        ended = iris_fed(*words, cwd=tmp_path)
        assert (ended.code, ended.out) == (125, ""), words
        assert "hunter2" not in ended.err


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, text
    path.write_text(text.replace(old, new))


def serve(cluster: Cluster) -> None:
    if cluster.process is not None:
        cluster.stop()
    (cluster.state_dir / "controller.url").unlink(missing_ok=True)
    # The configuration is the operator's own, so only its port is laid over it.
    cluster.serve_as_it_is(IRIS_FED_LISTEN__PORT=str(cluster.port))
    cluster.until_ready()


def trust_of(lab: Cluster, *keys: str) -> None:
    """Let `lab` take jobs of `hub`, known by these keys, and serve."""
    whole = yaml.safe_load(lab.config.read_text())
    whole["auth"]["federation_peers"] = {"hub": {"public_keys": list(keys), "allowed_submitters": ["*"]}}
    whole["backends"] = [{"id": "local", "shared_uid": "accept"}]
    lab.config.write_text(yaml.safe_dump(whole))
    serve(lab)


def reached(hub: Cluster) -> bool:
    return bool(hub.json("peer", "list")["peers"][0].get("reachable"))


def until_reached(hub: Cluster) -> None:
    poll(lambda: reached(hub), "hub has reached lab")


def test_a_signing_key_is_followed_by_a_new_one_without_a_moment_in_which_the_peer_refuses(
    tmp_path: Path, own: list[Cluster]
) -> None:
    for name in ("hub", "lab"):
        assert iris_fed("init", name, "--name", name, cwd=tmp_path).code == 0
        own.append(Cluster(name, tmp_path / name))
    hub, lab = own
    old = iris_fed("keys", "show", cwd=hub.directory).out
    trust_of(lab, old)
    with hub.config.open("a") as file:
        file.write(f"peers:\n  - {{name: lab, address: '{lab.url}'}}\nfederation: {{heartbeat_interval_s: 0.5, ")
        file.write("heartbeat_timeout_s: 0.4}\n")
    serve(hub)
    until_reached(hub)
    token = hub.run("token", "create", "--name", "laptop")
    assert token.code == 0, token
    mine = clean_environment(IRIS_FED_CONTROLLER=hub.url, IRIS_FED_TOKEN=token.out.strip())

    early = iris_fed("keys", "rotate", "--activate", cwd=hub.directory)
    assert (early.code, early.out) == (125, "")
    before = hub.config.read_text()
    prepared = iris_fed("keys", "rotate", cwd=hub.directory)
    assert prepared.code == 0
    assert iris_fed("keys", "rotate", cwd=hub.directory).out == prepared.out
    assert mode(hub.directory / "signing-key.pem.next") == 0o600
    assert iris_fed("keys", "show", cwd=hub.directory).out == old
    assert hub.config.read_text() == before

    trust_of(lab, old, prepared.out)
    poll(lambda: hub.json("peer", "check", "lab")["steps"][-1]["ok"], "lab still believes the old key")

    activated = iris_fed("keys", "rotate", "--activate", cwd=hub.directory)
    assert (activated.code, activated.out) == (0, prepared.out), activated
    assert iris_fed("keys", "show", cwd=hub.directory).out == prepared.out
    assert mode(hub.directory / "signing-key.pem") == 0o600
    assert not (hub.directory / "signing-key.pem.next").exists()
    changed = [line for line in hub.config.read_text().splitlines() if line not in before.splitlines()]
    assert [line.split()[0] for line in changed] == ["previous_signing_keys:"]
    serve(hub)
    mine["IRIS_FED_CONTROLLER"] = hub.url
    until_reached(hub)
    assert hub.run("job", "run", "--target-cluster", "lab", "--", "echo", "with both").out == "with both\n"
    assert iris_fed("token", "list", env=mine).code == 0

    trust_of(lab, prepared.out)
    poll(lambda: hub.run("peer", "check", "lab").code == 0, "lab believes the new key alone")
    assert hub.run("job", "run", "--target-cluster", "lab", "--", "echo", "with one").out == "with one\n"


def test_a_configuration_that_a_machine_cannot_edit_is_left_alone_and_says_what_to_add(tmp_path: Path) -> None:
    iris_fed("keys", "init", cwd=tmp_path)
    config = tmp_path / "iris-fed.yaml"
    config.write_text("auth: &all\n  signing_key: file:signing-key.pem\n  users: &people []\n  admin_users: *people\n")
    with config.open("a") as file:
        file.write("  previous_signing_keys: *people\ncluster: {name: home}\n")
    text = config.read_text()
    assert iris_fed("keys", "rotate", cwd=tmp_path).code == 0
    activated = iris_fed("keys", "rotate", "--activate", cwd=tmp_path)
    assert activated.code == 0
    assert "was left alone: add file:signing-key." in activated.err
    assert config.read_text() == text
