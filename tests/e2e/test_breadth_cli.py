"""The wider half of the command line, on two real controllers: what a job brings along, reaching into it, lists."""

import hashlib
import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.clusters import ME, Cluster, Federation
from tests.e2e.command import COMMAND, Ended, Running, iris_fed, poll

LARGE_BYTES = 96 * 1024 * 1024
SECRET = "hunter2-which-nobody-may-see"
CHILDREN = """\
import asyncio
from iris_fed.client import Client, command_job

async def main():
    async with Client.from_context() as client:
        me = await client.whoami()
        children = [command_job(["sh", "-c", f"echo child {n}; exit {n}"], name=f"c{n}") for n in (0, 3)]
        jobs = [await client.submit(child) for child in children]
        ended = await client.wait_all(jobs, 30)
        print(me.role, [(status.name, status.exit_code) for status in ended])

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def large(federation: Federation) -> Iterator[str]:
    """A job on lab, known to hub, whose work directory holds `big` and `d/e/run.sh`; it goes on."""
    script = f"head -c {LARGE_BYTES} /dev/urandom >big; mkdir -p d/e; echo '#!/bin/sh' >d/e/run.sh; chmod +x d/e/run.sh"
    name = federation.hub.submit(
        *("--gpu", "H100", "--name", "large", "--", "sh", "-c", f"{script}; echo ready; exec sleep 600")
    )
    with federation.hub.begin("job", "logs", "-f", name) as log:
        log.until("ready")
    yield name
    federation.hub.cancel(name)
    federation.hub.until(name, "KILLED")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remote_digest(hub: Cluster, job: str) -> str:
    ended = hub.run("job", "exec", job, "--", "sha256sum", "big")
    assert ended.code == 0, ended
    return ended.out.split()[0]


def test_a_workspace_and_its_setup_travel_with_a_handoff(hub: Cluster, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / ".gitignore").write_text("*.ckpt\n")
    (work / "old.ckpt").write_text("large")
    (work / "src/train.sh").write_text("#!/bin/sh\ncat greeting notes; ls -A\n")
    (work / "src/train.sh").chmod(0o755)
    (tmp_path / "n.txt").write_text("from a single file\n")
    ended = hub.run(
        *(
            "job",
            "run",
            "--name",
            "travels",
            "--gpu",
            "H100",
            "--workspace",
            str(work),
            "--file",
            f"{tmp_path}/n.txt:notes",
        ),
        *("--setup", "echo preparing; echo hello >greeting", "--setup-timeout", "20s", "--", "./src/train.sh"),
    )
    assert ended.code == 0, ended
    lines = ended.out.splitlines()
    assert "preparing" in lines
    assert lines[-6:] == ["hello", "from a single file", ".gitignore", "greeting", "notes", "src"]
    assert f"sends 2 files, 43 B (265 B packed), of {work} as the workspace" in ended.err
    page = hub.run("job", "describe", "travels").out
    bundle_id = hub.json("job", "describe", "travels")["request"]["bundleId"]
    for expected in ("setup:", "greeting", f"workspace:     {bundle_id}", "setup timeout: 20s", "kept until:"):
        assert expected in page, page
    assert "SUCCEEDED on lab/local" in ended.err


@pytest.mark.parametrize(("flags", "says"), [(("--workspace", "/nonexistent"), "/nonexistent"), ((), "link")])
def test_a_workspace_that_cannot_be_sent_submits_nothing(
    hub: Cluster, tmp_path: Path, flags: tuple[str, ...], says: str
) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    flags = flags or ("--workspace", str(tmp_path))
    ended = hub.run("job", "run", "--name", "unsent", *flags, "--", "true")
    assert ended.code == 125
    assert says in ended.err
    assert hub.run("job", "describe", "unsent").code == 125


def test_a_command_runs_in_the_tasks_place_through_the_parent(hub: Cluster, lab: Cluster, large: str) -> None:
    script = "echo $IRIS_TASK_ID; pwd; echo to stderr >&2; exit 7"
    done = hub.run("job", "exec", large, "--", "sh", "-c", script)
    task, directory = done.out.splitlines()
    assert (done.code, task, done.err) == (7, f"/{ME}/hub.large/0:0", "to stderr\n")
    assert directory.startswith(str(lab.state_dir))
    document = hub.json("job", "exec", f"{large}/0", "--", "sh", "-c", script, code=7)
    assert (document["exitCode"], document["stderr"]) == (7, "to stderr\n")


def test_a_command_in_a_tasks_place_that_cannot_be_or_does_not_end_has_its_own_code(hub: Cluster, large: str) -> None:
    hub.run("job", "run", "--name", "over", "--", "true")
    missing, late, over, unknown = hub.run_all(
        ("job", "exec", large, "--", "no-such-program"),
        ("job", "exec", large, "--timeout", "1s", "--", "sleep", "600"),
        ("job", "exec", "over", "--", "true"),
        ("job", "exec", "nowhere", "--", "true"),
    )
    assert (missing.code, late.code, over.code, unknown.code) == (127, 124, 125, 125)
    assert "did not end in time" in late.err
    assert "does not run" in over.err
    assert "there is no task" in unknown.err


def test_a_folder_is_listed_and_brought_here_through_the_parent(hub: Cluster, large: str, tmp_path: Path) -> None:
    top = hub.json("job", "files", large)["entries"]
    assert [(one["path"], int(one.get("size", 0))) for one in top] == [("big", LARGE_BYTES), ("d", 0)]
    assert "d/e/run.sh" in hub.run("job", "files", large, "d/e").out
    fetched = hub.run("job", "fetch", large, "d", str(tmp_path / "here"))
    assert fetched.code == 0, fetched
    assert (tmp_path / "here/d/e/run.sh").read_text() == "#!/bin/sh\n"
    assert os.access(tmp_path / "here/d/e/run.sh", os.X_OK)
    again = hub.json("job", "fetch", large, "d", str(tmp_path / "here"))
    assert (again["files"], again["receivedBytes"], again["keptBytes"]) == (1, "0", "10")
    nothing = hub.run("job", "fetch", large, "nowhere", str(tmp_path))
    assert (nothing.code, "does not exist" in nothing.err) == (125, True)


def _begin_fetch(hub: Cluster, job: str, destination: Path) -> Running:
    """A fetch of `big` that is under way: some of it is here, and not all."""
    running = hub.begin("job", "fetch", "--json", job, "big", str(destination))
    poll(lambda: any(part.stat().st_size > 1_000_000 for part in destination.glob("big.*.part")), "a part is here")
    return running


def test_a_fetch_that_was_killed_goes_on_where_it_was(hub: Cluster, large: str, tmp_path: Path) -> None:
    with _begin_fetch(hub, large, tmp_path) as running:
        running.interrupt(signal.SIGKILL)
        running.end()
    (part,) = tmp_path.iterdir()
    here = part.stat().st_size
    assert 0 < here < LARGE_BYTES
    document = hub.json("job", "fetch", large, "big", str(tmp_path))
    assert (int(document["keptBytes"]), int(document["receivedBytes"])) == (here, LARGE_BYTES - here)
    assert [path.name for path in tmp_path.iterdir()] == ["big"]
    assert _digest(tmp_path / "big") == _remote_digest(hub, large)


def test_a_fetch_outlives_the_parent_controllers_death(hub: Cluster, large: str, tmp_path: Path) -> None:
    with _begin_fetch(hub, large, tmp_path) as running:
        hub.kill()
        (part,) = tmp_path.iterdir()
        assert part.name.endswith(".part")
        hub.start()
        ended = running.end()
    assert ended.code == 0, ended
    assert int(json.loads(ended.out)["receivedBytes"]) == LARGE_BYTES
    assert _digest(tmp_path / "big") == _remote_digest(hub, large)


def test_an_earlier_attempts_files_are_reached_by_its_number(hub: Cluster, tmp_path: Path) -> None:
    script = "echo ${IRIS_TASK_ID##*:} >which; [ $(cat which) = 1 ]"
    assert hub.run("job", "run", "--name", "tries", "--max-retries", "1", "--", "sh", "-c", script).code == 0
    for attempt, content in (("0", "0\n"), ("1", "1\n")):
        assert hub.run("job", "fetch", "tries", "which", str(tmp_path / attempt), "--attempt", attempt).code == 0
        assert (tmp_path / attempt / "which").read_text() == content


@pytest.mark.parametrize("place", ["hub", "lab"])
def test_code_in_a_task_submits_children_that_are_seen_where_the_root_was_submitted(
    hub: Cluster, tmp_path: Path, place: str
) -> None:
    (tmp_path / "children.py").write_text(CHILDREN)
    pin = ("--target-cluster", "lab") if place == "lab" else ()
    ended = hub.run(
        *("job", "run", "--name", f"root-{place}", "--file", f"{tmp_path}/children.py", *pin),
        *("--", sys.executable, "children.py"),
    )
    assert (ended.code, ended.out) == (0, "job [('c0', 0), ('c3', 3)]\n"), ended
    children, page, tree = hub.run_all(
        ("job", "list", "--json", "--children-of", f"root-{place}"),
        ("job", "describe", f"root-{place}"),
        ("job", "list", "--json", "--tree", "--prefix", f"root-{place}"),
    )
    where = {"hub": "", "lab": "lab"}[place]
    found = [(job["name"], job["state"], job.get("cluster", "")) for job in json.loads(children.out)["jobs"]]
    assert sorted(found) == [("c0", "JOB_STATE_SUCCEEDED", where), ("c3", "JOB_STATE_FAILED", where)]
    assert f"/{ME}/root-{place}/c3  FAILED" in page.out
    assert {job["name"] for job in json.loads(tree.out)["jobs"]} == {f"root-{place}", "c0", "c3"}
    log, roots, document = hub.run_all(
        ("job", "logs", f"root-{place}/c3"),
        ("job", "list", "--json"),
        ("job", "describe", "--json", f"root-{place}"),
    )
    assert log.out == "child 3\n"
    assert not {job["name"] for job in json.loads(roots.out)["jobs"]} & {"c0", "c3"}
    assert len(json.loads(document.out)["children"]) == 2


def test_the_command_inside_a_task_sees_its_own_job_and_what_is_below(hub: Cluster) -> None:
    command = shlex.quote(COMMAND)
    script = f"{command} job run --name inner -- true && {command} job list && {command} job describe inner"
    ended = hub.run("job", "run", "--name", "outer", "--", "sh", "-c", script)
    assert ended.code == 0, ended
    assert f"/{ME}/outer/inner  SUCCEEDED" in ended.out
    assert f"parent:       /{ME}/outer\n" in ended.out


def test_the_members_of_a_gang_meet_at_an_address_that_all_of_them_know(hub: Cluster) -> None:
    script = "echo $IRIS_NUM_TASKS ${IRIS_GANG_ADDRESSES%%,*}:${IRIS_GANG_PORTS_RDZV%%,*}"
    flags = ("--name", "ring", "--replicas", "3", "--gang", "--port", "rdzv", "--gpu", "H100")
    ended = hub.run("job", "run", *flags, "--", "sh", "-c", script)
    assert ended.code == 0, ended
    words = {line.split(maxsplit=1)[1] for line in ended.out.splitlines()}
    assert len(words) == 1
    assert words.pop().startswith("3 127.0.0.1:")
    assert "gang:         all tasks start together" in hub.run("job", "describe", "ring").out


def test_a_gang_that_does_not_fit_as_a_whole_starts_no_member(hub: Cluster) -> None:
    holder = hub.submit("--gpu", "H100x4", "--", "sleep", "600")
    hub.until(holder, "RUNNING")
    flags = ("--replicas", "2", "--gang", "--gpu", "H100x4", "--scheduling-timeout", "500ms")
    late = hub.run("job", "run", "--name", "whole", *flags, "--", "true")
    assert (late.code, "UNSCHEDULABLE" in late.err) == (125, True)
    assert all("startedAt" not in hub.task("whole", index) for index in (0, 1))
    hub.cancel(holder)
    hub.until(holder, "KILLED")


def test_a_preferred_place_is_a_wish_and_a_required_one_is_not(hub: Cluster) -> None:
    assert hub.run("job", "run", "--prefer", "region=mars", "--name", "wish", "--", "true").code == 0
    assert "constraints:  region=mars (preferred)" in hub.run("job", "describe", "wish").out
    assert hub.run("job", "run", "--constraint", "region=mars", "--", "true").code == 125


def test_a_job_survives_as_many_failed_tasks_as_it_may(hub: Cluster) -> None:
    script = ("--replicas", "3", "--", "sh", "-c", "[ $IRIS_TASK_INDEX != 1 ]")
    assert hub.run("job", "run", "--max-task-failures", "1", *script).code == 0
    assert hub.run("job", "run", *script).code == 1


def _holds_secret(directory: Path) -> list[str]:
    """Files below it that hold the secret."""
    found = []
    for path in directory.rglob("*"):
        if path.is_file() and SECRET.encode() in path.read_bytes():
            found.append(str(path.relative_to(directory)))
    return found


def _until_forgotten(cluster: Cluster) -> None:
    poll(lambda: not _holds_secret(cluster.directory), f"{cluster.name}'s files forget the secret")


def _said(ended: Ended) -> str:
    assert ended.code == 0, ended
    return ended.out + ended.err


@pytest.mark.parametrize("place", ["hub", "lab"])
def test_a_secret_is_seen_by_its_task_and_by_nobody_else(
    hub: Cluster, lab: Cluster, tmp_path: Path, place: str
) -> None:
    (tmp_path / "token").write_text(SECRET + "\n")
    name = f"secret-{place}"
    pin = ("--target-cluster", "lab") if place == "lab" else ()
    script = f'[ "$TOKEN" = {SECRET[:8]}"{SECRET[8:]}" ] && echo it is there; exec sleep 600'
    # The task's own command line is no secret, so it must not hold the whole.
    script = script.replace(SECRET[8:], SECRET[8:12] + '""' + SECRET[12:])
    flags = ("--name", name, "--secret", f"TOKEN=file:{tmp_path}/token", *pin)
    with hub.begin("job", "run", *flags, "--", "sh", "-c", script) as running:
        running.until("it is there")
        assert SECRET.encode() not in Path(f"/proc/{running.process.pid}/cmdline").read_bytes()
        asked = [("job", verb, name, *more) for verb in ("describe", "events") for more in ((), ("--json",))]
        seen = [_said(one) for one in hub.run_all(*asked, ("job", "list", "--json", "--prefix", name))]
        seen.append(json.dumps(hub.call("GetJobStatus", jobId=f"/{ME}/{name}")))
        assert "secrets:      TOKEN" in seen[0]
        hub.cancel(name)
        ended = running.end()
    hub.until(name, "KILLED")
    for text in (*seen, ended.err, ended.out, hub.log, lab.log):
        assert SECRET not in text
    for cluster in (hub, lab):
        _until_forgotten(cluster)


def test_when_a_controller_has_stopped_no_file_of_it_holds_the_secret_of_a_job_that_ended(
    hub: Cluster, lab: Cluster, tmp_path: Path
) -> None:
    for cluster in (lab, hub):
        (tmp_path / "token").write_text(SECRET)
        secret = ("--secret", f"TOKEN=file:{tmp_path}/token")
        assert cluster.run("job", "run", *secret, "--", "sh", "-c", "[ ${#TOKEN} = 28 ]").code == 0
        assert cluster.stop() == 0
        assert _holds_secret(cluster.directory) == []
        cluster.start()


def test_users_are_listed_with_what_they_do(hub: Cluster) -> None:
    running = hub.submit("--name", "/carol/works", "--replicas", "2", "--", "sleep", "600")
    hub.submit("--name", "/carol/done", "--", "true")
    hub.until("/carol/done", "SUCCEEDED")
    hub.until(running, "RUNNING")
    rows = {line.split()[0]: line.split() for line in hub.run("user", "list").out.splitlines()[1:]}
    assert rows["carol"][2:] == ["1", "1", "2", "0"]
    assert ME in rows
    users = {user["user"]: user for user in hub.json("user", "list")["users"]}
    assert users["carol"]["jobStateCounts"] == {"RUNNING": 1, "SUCCEEDED": 1}
    hub.cancel(running)
    hub.until(running, "KILLED")


def _launch(hub: Cluster, name: str) -> str:
    launched: str = hub.call("LaunchJob", name=name, entrypoint={"runCommand": {"argv": ["true"]}})["jobId"]
    return launched


@pytest.mark.parametrize("sort", [(), ("--sort", "name")])
def test_pages_neither_repeat_nor_leave_out_a_job_while_others_are_submitted(
    hub: Cluster, sort: tuple[str, ...]
) -> None:
    user = "pages" + "".join(sort[1:])
    before = {_launch(hub, f"/{user}/j{number:02}") for number in range(7)}
    flags = ("job", "list", "--user", user, "--limit", "3", *sort)
    seen: list[str] = []
    page: tuple[str, ...] = ()
    for number in range(10):
        document = hub.json(*flags, *page)
        seen += [job["jobId"] for job in document["jobs"]]
        if "nextPageToken" not in document:
            break
        page = ("--page", document["nextPageToken"])
        # Each lands on a page that was read already, whichever way it is sorted.
        _launch(hub, f"/{user}/a{number:02}")
    assert len(seen) == len(set(seen))
    assert set(seen) == before


def test_a_list_that_does_not_end_says_how_to_go_on_with_it(hub: Cluster) -> None:
    for number in range(3):
        _launch(hub, f"/goes-on/j{number}")
    flags = ("job", "list", "--user", "goes-on", "--limit", "2")
    first = hub.run(*flags)
    said, _, token = first.err.strip().partition("--page ")
    assert (len(first.out.splitlines()), said) == (3, "2 of 3 jobs; the next: ")
    rest, wrong = hub.run_all((*flags, "--page", token), (*flags, "--page", "nonsense"))
    assert (len(rest.out.splitlines()), rest.err) == (2, "")
    assert (wrong.code, "page_token" in wrong.err) == (125, True)


def test_a_list_is_narrowed_to_a_place(hub: Cluster) -> None:
    here = hub.submit("--name", "narrow-here", "--", "true")
    there = hub.submit("--name", "narrow-there", "--gpu", "H100", "--", "true")
    hub.until(here, "SUCCEEDED")
    hub.until(there, "SUCCEEDED")

    narrowed = {
        ("--cluster", "lab"): ["narrow-there"],
        ("--backend", "local", "--cluster", "local"): ["narrow-here"],
        ("--state", "failed,killed"): [],
        ("--sort", "name"): ["narrow-here", "narrow-there"],
    }
    found = hub.run_all(*(("job", "list", "--json", "--prefix", "narrow", *flags) for flags in narrowed))
    assert [[job["name"] for job in json.loads(one.out).get("jobs", [])] for one in found] == list(narrowed.values())


def test_the_shell_is_offered_jobs_peers_and_backends(hub: Cluster) -> None:
    hub.submit("--name", "offered-1", "--", "true")

    def after_tab(*words: str) -> list[str]:
        variables = {"_IRIS_FED_COMPLETE": "complete_bash", "COMP_CWORD": str(len(words))}
        ended = iris_fed(env=hub.env(COMP_WORDS=" ".join(("iris-fed", *words)), **variables))
        assert (ended.code, ended.err) == (0, "")
        return ended.out.split()

    assert after_tab("job", "describe", "offered") == ["offered-1"]
    assert after_tab("job", "cancel", f"/{ME}/offered") == [f"/{ME}/offered-1"]
    assert after_tab("job", "run", "--target-cluster", "l") == ["lab"]
    assert after_tab("job", "list", "--backend", "l") == ["local"]
    assert after_tab("peer", "check", "x") == []


def test_the_files_of_all_tasks_come_each_into_a_folder_of_its_own(hub: Cluster, tmp_path: Path) -> None:
    script = "[ $IRIS_TASK_INDEX = 1 ] || { mkdir out; echo $IRIS_TASK_INDEX >out/which; }"
    flags = ("--name", "spread", "--gpu", "H100", "--replicas", "3")
    assert hub.run("job", "run", *flags, "--", "sh", "-c", script).code == 0
    some = hub.run("job", "fetch", "spread", "out", str(tmp_path / "all"), "--all-tasks")
    assert some.code == 1
    assert "spread/1: out does not exist" in some.err
    assert "2 files in" in some.err
    brought = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert brought == {"all/0/out/which": "0\n", "all/2/out/which": "2\n"}
    again = hub.json("job", "fetch", "spread", "out", str(tmp_path / "all"), "--all-tasks", code=1)
    assert (again["receivedBytes"], again["keptBytes"], list(again["missing"])) == ("0", "4", ["1"])
    one = hub.run("job", "fetch", "spread", "out/which", str(tmp_path), "--task", "2")
    assert (one.code, (tmp_path / "which").read_text()) == (0, "2\n")
    assert hub.run("job", "files", "spread", "out", "--task", "2").out == hub.run("job", "files", "spread/2", "out").out
    both, none = hub.run_all(
        ("job", "fetch", "spread/2", "out", str(tmp_path), "--all-tasks"),
        ("job", "fetch", "spread", "nothing", str(tmp_path), "--all-tasks"),
    )
    assert (both.code, "a task is named already" in both.err) == (2, True)
    assert (none.code, "none of the job's tasks has it" in none.err) == (125, True)
