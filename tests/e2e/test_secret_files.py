"""`job run --secret-file`, on two real controllers: the task reads the file, and afterwards nobody does."""

from pathlib import Path

import pytest

from tests.e2e.clusters import Cluster
from tests.e2e.command import poll

SECRET = "hunter2-which-nobody-may-see"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(f"-----BEGIN\n{SECRET}\n")
    return path


def holding_it(cluster: Cluster) -> list[Path]:
    """Files of that controller, and of its tasks, that hold the secret."""
    found = []
    for path in cluster.directory.rglob("*"):
        if path.is_file() and SECRET.encode() in path.read_bytes():
            found.append(path)
    return found


@pytest.mark.parametrize("place", ["hub", "lab"])
def test_the_task_reads_its_file_and_everybody_else_sees_only_its_name(
    hub: Cluster, lab: Cluster, key: Path, place: str
) -> None:
    cluster, name = (lab if place == "lab" else hub), f"file-{place}"
    script = 'cd "$IRIS_SECRETS_DIR" && sed 1q key.pem && stat -c "%a %n" . key.pem && exec sleep 600'
    flags = ("--name", name, "--target-cluster", "lab") if place == "lab" else ("--name", name)
    with hub.begin("job", "run", *flags, "--secret-file", f"key.pem=file:{key}", "--", "sh", "-c", script) as running:
        running.until("600 key.pem")
        assert SECRET.encode() not in Path(f"/proc/{running.process.pid}/cmdline").read_bytes()
        asked = hub.run_all(
            ("job", "describe", name), ("job", "describe", name, "--json"), ("job", "events", name),
            ("job", "files", name), ("job", "exec", name, "--", "env"), ("job", "list", "--json", "--prefix", name),
            ("job", "exec", name, "--", "sh", "-c", 'tail -n1 "$IRIS_SECRETS_DIR/key.pem" | wc -c'),
        )  # fmt: skip
        assert [ended.code for ended in asked] == [0] * len(asked)
        assert "secrets:      file:key.pem" in asked[0].out
        assert asked[3].out.split() == ["MODE", "SIZE", "MODIFIED", "PATH"]
        assert asked[-1].out.strip() == str(len(SECRET) + 1)
        fetched = hub.run("job", "fetch", name, "../secrets/key.pem", str(key.parent))
        assert (fetched.code, "no path below the work directory" in fetched.err) == (125, True)
        kept = {path.name for path in holding_it(cluster)}
        assert {"key.pem"} <= kept <= {"key.pem", "controller.db", "controller.db-wal"}
        hub.cancel(name)
        ended = running.end()
    for text in (ended.out, ended.err, hub.log, lab.log, *(one.out + one.err for one in asked)):
        assert SECRET not in text
    hub.until(name, "KILLED")
    assert hub.run("job", "logs", name).out.splitlines() == ["-----BEGIN", "700 .", "600 key.pem"]
    for one in (hub, lab):
        poll(lambda one=one: not holding_it(one), f"{one.name}'s files forget the secret")  # type: ignore[misc]


def test_it_goes_with_the_attempt_although_the_controller_was_killed_and_is_not_back(lab: Cluster, key: Path) -> None:
    gate = key.parent / "gate"
    script = f'while [ ! -e {gate} ]; do sleep 0.05; done; grep -c hunter2 "$IRIS_SECRETS_DIR/key.pem"'
    name = lab.submit("--secret-file", f"key.pem=file:{key}", "--", "sh", "-c", script)
    lab.until(name, "RUNNING")
    folder = lab.state_dir
    lab.kill()
    try:
        assert "key.pem" in {path.name for path in holding_it(lab)}
        gate.touch()
        poll(lambda: not list(folder.rglob("key.pem")), "the file is gone")
    finally:
        lab.start()
    lab.until(name, "SUCCEEDED")
    assert lab.run("job", "logs", name).out == "1\n"
    poll(lambda: not holding_it(lab), "no file holds the secret")
