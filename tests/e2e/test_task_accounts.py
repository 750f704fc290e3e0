"""Tasks under accounts of their own: what they can read of the controller, and of each other."""

import json
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.clusters import Cluster, end_all
from tests.e2e.command import all_at_once, iris_fed, poll

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts tasks as others")
ACCOUNTS = {"root": "nobody", "bob": "daemon", "hub/*": "games"}
PROBE = """
import json, os, sys
readable = []
for path in sys.argv[1:]:
    try:
        os.listdir(path) if os.path.isdir(path) else open(path).close()
        readable.append(path)
    except OSError:
        pass
secrets = os.environ.get("IRIS_SECRETS_DIR", "")
print(json.dumps({
    "ids": [*os.getresuid(), *os.getresgid(), *os.getgroups()],
    "home": os.environ["HOME"],
    "readable": readable,
    "secret": open(secrets + "/key").read() if secrets else "",
    "file": open("key.txt").read() if secrets else "",
    "exported": os.environ.get("EXPORTED", ""),
}))
os.chdir(os.environ["IRIS_WORKDIR"])
open("mine", "w").write("kept")
"""
PYTHON = "/usr/bin/python3"


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A directory that every account may pass through, as pytest's own are not."""
    root = Path(tempfile.mkdtemp(prefix="iris-fed-accounts-"))
    root.chmod(0o755)
    yield root
    shutil.rmtree(root)


@pytest.fixture
def lab(open_path: Path) -> Iterator[Cluster]:
    backends = [{"id": "local", "kill_grace_s": 1.0, "run_as": ACCOUNTS}]
    cluster = Cluster.make(open_path, "lab", backends=backends)
    cluster.directory.chmod(0o755)
    cluster.start()
    yield cluster
    end_all(open_path, [cluster])


def probe(lab: Cluster, name: str, *paths: Path | str, flags: tuple[str, ...] = ()) -> Any:
    ended = lab.run("job", "run", "--name", name, *flags, "--", PYTHON, "-c", PROBE, *map(str, paths))
    assert ended.code == 0, ended
    return json.loads(ended.out.strip().splitlines()[-1])


def ids(account: str) -> list[int]:
    entry = pwd.getpwnam(account)
    return [entry.pw_uid] * 3 + [entry.pw_gid] * 3 + os.getgrouplist(account, entry.pw_gid)


def test_a_task_of_another_account_reads_its_own_and_nothing_of_the_controller(lab: Cluster) -> None:
    key = lab.directory / "key.txt"
    key.write_text("hidden")
    flags = ("--secret-file", f"key=file:{key}", "--file", str(key), "--setup", "export EXPORTED=yes")
    state = [path for path in lab.state_dir.rglob("*") if not path.is_socket()]
    process = lab.process
    assert process is not None
    told = probe(
        lab,
        "/root/first",
        *(lab.state_dir, lab.directory / "signing-key.pem", Path(f"/proc/{process.pid}/environ"), *state),
        flags=flags,
    )
    assert told["readable"] == []
    assert told["ids"] == ids("nobody")
    assert told["home"] == pwd.getpwnam("nobody").pw_dir
    assert (told["secret"], told["file"], told["exported"]) == ("hidden", "hidden", "yes")
    assert {path.name for path in state} >= {"admin.token", "controller.lock", "attempts"}


def test_the_tasks_of_two_accounts_do_not_see_each_other_though_the_controller_reads_both(lab: Cluster) -> None:
    assert probe(lab, "/root/first")["ids"] == ids("nobody")
    (mine,) = lab.state_dir.glob("backends/local/attempts/*/work/mine")
    told = probe(lab, "/bob/second", mine, mine.parent, mine.parent.parent, mine.parent.parent / "attempt.json")
    assert (told["readable"], told["ids"]) == ([], ids("daemon"))
    assert mine.stat().st_uid == pwd.getpwnam("nobody").pw_uid
    assert lab.run("job", "files", "/root/first").out.split()[-1] == "mine"


def test_a_command_in_a_tasks_place_runs_as_the_task_whatever_its_environment_asks(lab: Cluster) -> None:
    lab.submit("--name", "first", "-e", "LD_PRELOAD=/nothing.so", "--", "sleep", "60")
    lab.until("first", "RUNNING")
    ended = lab.run("job", "exec", "first", "--", "/bin/sh", "-c", "id -u; id -G; cat ../attempt.json; pwd")
    uid, groups, folder = ended.out.split("\n")[:3]
    assert [int(uid), *map(int, groups.split())] == [ids("nobody")[0], *ids("nobody")[6:]]
    assert folder.endswith("/work")
    assert "attempt.json: Permission denied" in ended.err
    lab.cancel("first")
    lab.until("first", "KILLED")


def test_whom_no_entry_fits_runs_nothing_and_is_told(lab: Cluster) -> None:
    ended = lab.run("job", "run", "--name", "/eve/first", "--", "id")
    assert ended.code != 0
    assert "names no account for the tasks of eve" in ended.out + ended.err


def test_a_task_cannot_leave_a_link_where_the_controller_removes_or_reads(lab: Cluster) -> None:
    victim = lab.directory / "victim"
    victim.mkdir(mode=0o755)
    (victim / "kept").write_text("here")
    script = f"mkdir deep && ln -s {victim} deep/link && ln -s {victim}/kept file && chmod 000 deep"
    assert lab.run("job", "run", "--name", "first", "--", "/bin/sh", "-c", script).code == 0
    assert "links are not followed" in lab.run("job", "fetch", "first", "file", str(lab.directory / "out")).err
    assert lab.run("job", "run", "--name", "first", "--if-exists", "recreate", "--", "true").code == 0
    attempts = lab.state_dir / "backends" / "local" / "attempts"
    poll(lambda: len(list(attempts.iterdir())) == 1, "the first attempt's place is gone")
    assert (victim / "kept").read_text() == "here"
    assert victim.stat().st_mode & 0o777 == 0o755


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {},
        {"users": ["*@lab.org"]},
        "auth.users and auth.admin_users let several people submit, but tasks of backends.local would run",
    ),
    (
        {},
        {"users": ["a@lab.org"], "admin_users": ["b@lab.org"]},
        "set run_as, or accept that with `shared_uid: accept`",
    ),
    ({}, {"iap": {"signed_header_audience": "/a"}}, "auth.iap lets several people in"),
    ({"run_as": "nobody-here"}, {}, "backends.local.run_as: this machine has no account 'nobody-here'"),
    ({"run_as": {"*": "root"}}, {}, "backends.local.run_as: tasks do not run as root"),
    ({"run_as": "nobody"}, {}, "is closed to other accounts; put state_dir elsewhere"),
]


def test_a_start_that_would_let_strangers_act_as_the_controller_is_refused(tmp_path: Path, own: list[Cluster]) -> None:
    tmp_path.chmod(0o700)

    def refusal(number: int, backend: dict[str, Any], auth: dict[str, Any]) -> str:
        own.append(Cluster.make(tmp_path, "lab", f"lab-{number}", backends=[backend], auth=auth))
        ended = iris_fed("serve", "--config", str(own[-1].write_config()))
        assert (ended.code, ended.out) == (125, ""), ended
        return ended.err

    calls = [partial(refusal, number, backend, auth) for number, (backend, auth, _) in enumerate(REFUSED)]
    for (_, _, says), err in zip(REFUSED, all_at_once(calls), strict=True):
        assert says in err


def test_a_token_lets_nobody_else_in_where_tasks_are_the_controller(tmp_path: Path, own: list[Cluster]) -> None:
    lab = Cluster.make(tmp_path, "lab", backends=[{"id": "local", "kill_grace_s": 1.0}])
    own.append(lab)
    lab.start()
    refused = lab.run("token", "create", "--user", "alice@lab.org")
    assert refused.code == 125
    assert "alice@lab.org could submit jobs, but tasks of backends.local would run as the controller" in refused.err
    assert lab.run("token", "create", "--user", "alice@lab.org", "--role", "dashboard").code == 0
    assert lab.run("token", "create").code == 0

    # The word of the operator lets her in; without it the controller does not start while her token counts.
    lab.stop()
    lab.settings["backends"][0]["shared_uid"] = "accept"
    lab.start()
    token_id = lab.json("token", "create", "--user", "alice@lab.org")["info"]["tokenId"]
    lab.stop()
    del lab.settings["backends"][0]["shared_uid"]
    ended = iris_fed("serve", "--config", str(lab.write_config()))
    assert (ended.code, "alice@lab.org has a user token" in ended.err) == (125, True), ended
    lab.settings["backends"][0]["shared_uid"] = "accept"
    lab.start()
    assert lab.run("token", "revoke", token_id).code == 0
    lab.stop()
    del lab.settings["backends"][0]["shared_uid"]
    lab.start()


def test_config_check_tells_what_would_be_refused_and_where(tmp_path: Path) -> None:
    several = tmp_path / "several.yaml"
    several.write_text("cluster: {name: lab}\nauth: {users: ['*@lab.org']}\n")
    refused = iris_fed("config", "check", str(several))
    assert (refused.code, refused.out) == (125, "")
    assert "let several people submit, but tasks of backends.local" in refused.err
    here = tmp_path / "here.yaml"
    here.write_text("cluster: {name: lab}\nbackends: [{id: local, run_as: nobody-here}]\n")
    noted = iris_fed("config", "check", str(here))
    assert noted.code == 0
    assert "note: started here, by this user, it would be refused: backends.local.run_as" in noted.err
    assert "run_as: nobody-here" in noted.out
