"""`iris-fed db backup` and `db restore`, as an operator uses them."""

import json
import shutil
import stat
from pathlib import Path

import pytest

from tests.e2e.clusters import Cluster, runs
from tests.e2e.command import Ended, iris_fed, poll


@pytest.fixture
def lab(tmp_path: Path, own: list[Cluster]) -> Cluster:
    machine = {"id": "local", "cpu": 3, "kill_grace_s": 1.0}
    own.append(Cluster.make(tmp_path, "lab", backends=[machine]).start())
    return own[0]


def db(lab: Cluster, verb: str, *arguments: str) -> Ended:
    return iris_fed("db", verb, *arguments, "--config", str(lab.config))


def pid_of(lab: Cluster, name: str) -> int:
    job = lab.submit("--name", name, "--cpu", "1", "--", "sh", "-c", "echo $$; exec sleep 300")
    lab.until(job, "RUNNING")
    return int(lab.run("job", "logs", job).out)


def test_a_drill_what_still_runs_goes_on_what_came_later_is_ended_and_what_waited_is_lost(
    lab: Cluster, tmp_path: Path
) -> None:
    copy = tmp_path / "lab.db"
    kept = pid_of(lab, "kept")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "main.py").write_text("print('never')")
    everything = ["--cpu", "3", "--workspace", str(tmp_path / "code")]
    waits = lab.submit("--name", "waits", *everything, "--", "python3", "main.py")
    taken = db(lab, "backup", str(copy))
    assert taken.code == 0, taken
    assert lab.state(waits) == "PENDING"
    assert "cluster lab, 2 unfinished jobs, 1 workspace; found whole" in taken.out
    assert "not in it: auth.signing_key, auth.nonce_key" in taken.err
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    later = pid_of(lab, "later")

    running = db(lab, "restore", str(copy))
    assert (running.code, "is in use by another controller" in running.err) == (125, True)
    assert lab.stop() == 0
    shutil.rmtree(lab.state_dir / "bundles")
    put_back = db(lab, "restore", str(copy))
    assert put_back.code == 0, put_back
    assert put_back.out.startswith("restored cluster lab into ")
    assert list(lab.state_dir.glob("controller.db.before-restore-*"))
    assert len(list((lab.state_dir / "bundles").iterdir())) == 1
    lab.start()

    poll(lambda: not runs(later), "what came later is ended")
    lab.until(waits, "WORKER_FAILED")
    assert "lost: this cluster's database was restored from a backup of 20" in lab.run("job", "describe", waits).out
    assert runs(kept)
    assert lab.state("kept") == "RUNNING"
    lab.cancel("kept")
    lab.until("kept", "KILLED")
    assert db(lab, "check").code == 0


def test_a_backup_is_told_as_json_and_never_replaces_a_file_unasked(lab: Cluster, tmp_path: Path) -> None:
    copy = tmp_path / "lab.db"
    told = json.loads(db(lab, "backup", str(copy), "--json").out)
    assert (told["cluster"], told["unfinishedJobs"], told["bytes"]) == ("lab", 0, copy.stat().st_size)
    again = db(lab, "backup", str(copy))
    assert (again.code, "--force replaces it" in again.err) == (125, True)
    assert db(lab, "backup", str(copy), "--force").code == 0
    nowhere = db(lab, "backup", str(tmp_path / "none" / "lab.db"))
    assert (nowhere.code, "there is no directory" in nowhere.err) == (125, True)
    other = iris_fed("db", "restore", str(tmp_path / "none.db"), "--state-dir", str(tmp_path / "fresh"))
    assert (other.code, "there is no backup" in other.err) == (125, True)
