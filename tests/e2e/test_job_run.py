"""`job run`: from the command line to a process and back to an exit code."""

import json
import shutil
import signal
import subprocess
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest

from tests.e2e.clusters import ME, Cluster, whole_id
from tests.e2e.command import COMMAND, clean_environment, iris_fed
from tests.e2e.terminal import CTRL_C, Terminal

EXITS: list[tuple[list[str], int, str]] = [
    (["--", "true"], 0, "SUCCEEDED on local"),
    (["--", "sh", "-c", "exit 3"], 3, "exited with code 3"),
    (["--", "sh", "-c", "kill -9 $$"], 137, "SIGKILL"),
    (["--timeout", "300ms", "--", "sleep", "60"], 143, "limit of 0.3 s"),
    (["--", "no-such-program"], 127, "no such program in its PATH: 'no-such-program'"),
    (["--", "/etc/passwd"], 126, "'/etc/passwd' is not executable"),
    (["--replicas", "3", "--", "sh", "-c", "[ $IRIS_TASK_INDEX != 1 ] || exit 7; exec sleep 60"], 7, "code 7"),
    (["--wait-timeout", "300ms", "--timeout", "3s", "--", "sleep", "60"], 124, "job logs -f"),
    (["--gpu", "H100x99", "--", "true"], 125, "h100"),
    (["--target-cluster", "nowhere", "--", "true"], 125, "nowhere"),
    (["--replicas", "0", "--", "true"], 2, "--replicas"),
    ([], 2, "COMMAND"),
]
"""Arguments of `job run`, its exit code, and what it says on standard error."""


def test_the_exit_code_is_the_jobs_own_or_says_why_there_is_none(hub: Cluster) -> None:
    found = hub.run_all(*(("job", "run", *arguments) for arguments, _, _ in EXITS))
    for (arguments, code, says), ended in zip(EXITS, found, strict=True):
        assert (ended.code, ended.out) == (code, ""), arguments
        assert says in ended.err, arguments
        assert "Traceback" not in ended.err


def test_nobody_there_and_a_credential_that_is_refused_are_125(hub: Cluster, tmp_path: Path) -> None:
    unreachable = iris_fed("job", "run", "--controller", "http://127.0.0.1:1", "--", "true")
    assert (unreachable.code, "connection refused" in unreachable.err) == (125, True)
    nobody = iris_fed("job", "run", "--controller", hub.url, "--", "true")
    assert nobody.code == 125
    (tmp_path / "token").write_text("wrong")
    stranger = iris_fed("job", "run", "--", "true", env=hub.env() | {"IRIS_FED_TOKEN_FILE": str(tmp_path / "token")})
    assert stranger.code == 125
    for refused in (nobody, stranger):
        (line,) = refused.err.splitlines()
        assert line.startswith("iris-fed: ")
        assert "token" in line or "credential" in line


def test_a_job_that_gets_no_place_in_time_ends_without_a_code(hub: Cluster) -> None:
    holder = hub.submit("--gpu", "H100x8", "--", "sleep", "60")
    hub.until(holder, "RUNNING")
    late = hub.run("job", "run", "--gpu", "H100", "--scheduling-timeout", "300ms", "--", "true")
    assert late.code == 125
    assert "UNSCHEDULABLE" in late.err
    hub.cancel(holder)
    hub.until(holder, "KILLED")


def test_the_lines_of_several_tasks_bear_their_index(hub: Cluster) -> None:
    ended = hub.run("job", "run", "--replicas", "2", "--gpu", "H100", "--", "sh", "-c", "echo I am $IRIS_TASK_INDEX")
    assert sorted(ended.out.splitlines()) == ["[0] I am 0", "[1] I am 1"]
    assert ended.err.splitlines()[-1].startswith(f"/{ME}/sh-")
    assert "SUCCEEDED on lab/local after" in ended.err.splitlines()[-1]


def test_a_tasks_environment_is_the_one_that_was_asked_for_and_told(hub: Cluster, lab: Cluster) -> None:
    script = "env | sort; pwd"
    flags = [
        "--name",
        "env",
        "-e",
        "LR=0.1",
        "-e",
        "BARE",
        "--gpu",
        "h100:2",
        "--port",
        "http",
        "--port",
        "tensor-board",
    ]
    ended = hub.run("job", "run", *flags, "--", "sh", "-c", script, BARE="taken along")
    assert ended.code == 0, ended
    *pairs, directory = ended.out.splitlines()
    env = dict(pair.split("=", 1) for pair in pairs)
    assert (env["LR"], env["BARE"]) == ("0.1", "taken along")
    assert len(set(env["CUDA_VISIBLE_DEVICES"].split(","))) == 2
    assert env["IRIS_TASK_ID"] == f"/{ME}/hub.env/0:0"
    assert (env["IRIS_JOB_ID"], env["IRIS_TASK_INDEX"], env["IRIS_NUM_TASKS"]) == (f"/{ME}/hub.env", "0", "1")
    assert (env["IRIS_CONTROLLER_URL"], "http://" + env["IRIS_CONTROLLER_ADDRESS"]) == (lab.url, lab.url)
    assert env["IRIS_ADVERTISE_HOST"] == "127.0.0.1"
    assert 0 < int(env["IRIS_PORT_HTTP"]) != int(env["IRIS_PORT_TENSOR_BOARD"]) > 0
    assert env["IRIS_WORKDIR"] == directory
    assert directory.startswith(str(lab.state_dir))
    assert env["IRIS_ATTEMPT_UID"] == hub.attempt("env")["attemptUid"]


def test_gpus_are_asked_for_by_variant_or_by_number_alone(hub: Cluster) -> None:
    script = ("--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    found = hub.run_all(*(("job", "run", "--gpu", gpu, *script) for gpu in ("H100", "2")))
    assert [len(ended.out.strip().split(",")) for ended in found] == [1, 2]


def test_a_job_goes_to_the_cluster_that_it_is_pinned_to(hub: Cluster) -> None:
    ended = hub.run("job", "run", "--target-cluster", "lab", "--name", "pinned", "--", "sh", "-c", "exit 4")
    assert ended.code == 4
    assert (hub.task("pinned")["cluster"], hub.task("pinned")["exitCode"]) == ("lab", 4)


def test_each_attempt_is_shown_with_its_end(hub: Cluster) -> None:
    ended = hub.run(
        "job", "run", "--name", "twice", "--max-retries", "1", "--", "sh", "-c", "echo $IRIS_TASK_ID; exit 5"
    )
    assert (ended.code, ended.out.splitlines()) == (5, [f"/{ME}/twice/0:0", f"/{ME}/twice/0:1"])
    attempts = hub.task("twice")["attempts"]
    assert [(one["attemptId"], one["state"], one["exitCode"]) for one in attempts] == [
        (0, "TASK_STATE_FAILED", 5),
        (1, "TASK_STATE_FAILED", 5),
    ]
    page = hub.run("job", "describe", "twice").out
    assert "exit code:    5" in page
    assert len([line for line in page.splitlines() if line.endswith("exited with code 5") and "local" in line]) == 3
    assert hub.run("job", "logs", "twice", "--attempt", "0").out == f"/{ME}/twice/0:0\n"
    assert hub.run("job", "logs", f"/{ME}/twice/0").out == f"/{ME}/twice/0:1\n"


def test_a_name_that_is_taken_is_dealt_with_as_asked(hub: Cluster) -> None:
    first = hub.submit("--name", "taken", "--", "sleep", "60")
    assert first == f"/{ME}/taken"
    hub.until("taken", "RUNNING")
    uid = hub.attempt("taken")["attemptUid"]
    for policy in ([], ["--if-exists", "error"]):
        refused = hub.run("job", "run", "--name", "taken", *policy, "--", "true")
        assert refused.code == 125
        assert "taken" in refused.err
    assert hub.submit("--name", "taken", "--if-exists", "keep", "--", "true") == first
    assert hub.attempt("taken")["attemptUid"] == uid
    assert hub.run("job", "run", "--name", "taken", "--if-exists", "recreate", "--", "true").code == 0
    assert hub.attempt("taken")["attemptUid"] != uid


def test_a_run_whose_job_is_replaced_does_not_take_the_others_end_for_its_own(hub: Cluster) -> None:
    with hub.begin("job", "run", "--name", "inc", "--", "sh", "-c", "echo I am A; exec sleep 60") as first:
        assert first.line() == "I am A\n"
        # Halted, so that it cannot see its own job's end in between.
        first.interrupt(signal.SIGSTOP)
        assert hub.run("job", "run", "--name", "inc", "--if-exists", "recreate", "--", "true").code == 0
        first.interrupt(signal.SIGCONT)
        ended = first.end()
    assert ended.code == 125
    assert ended.err.splitlines()[-1] == f"iris-fed: /{ME}/inc was replaced by another submission while it was followed"
    assert "SUCCEEDED" not in ended.err


def test_a_state_is_not_glued_to_output_without_a_newline(hub: Cluster) -> None:
    script = ("job", "run", "--name", "glued", "--if-exists", "recreate", "--", "printf", "no newline")
    with Terminal(*script, env=hub.env()) as terminal:
        assert terminal.end() == 0
    assert "\r\nno newline\r\n" in terminal.shown
    both = subprocess.run([COMMAND, *script], env=hub.env(), stdout=PIPE, stderr=STDOUT, timeout=30, check=True)
    assert b"\nno newline\n" in both.stdout
    assert hub.run(*script).out == "no newline"


def test_the_command_line_is_kept_without_the_values_of_variables(hub: Cluster) -> None:
    ended = hub.run(
        "job",
        "run",
        "--name",
        "masked",
        "-e",
        "TOKEN=hunter2",
        "-eKEY=hunter2",
        "--",
        "sh",
        "-c",
        "exit 0",
        "-e",
        "A=b",
    )
    assert ended.code == 0
    expected = ["iris-fed", "job", "run", "--name", "masked", "-e", "TOKEN=***", "-eKEY=***"]
    expected += ["--", "sh", "-c", "exit 0", "-e", "A=b"]
    assert hub.call("GetJobStatus", jobId=f"/{ME}/masked")["request"]["submitArgv"] == expected
    assert "submitted as: iris-fed job run --name masked -e 'TOKEN=***'" in hub.run("job", "describe", "masked").out


def test_ctrl_c_in_a_script_leaves_the_job_running(hub: Cluster) -> None:
    with hub.begin("job", "run", "--name", "left", "--", "sh", "-c", "echo on; exec sleep 60") as running:
        assert running.line() == "on\n"
        running.interrupt(signal.SIGINT)
        ended = running.end()
    assert ended.code == 130
    assert ended.err.splitlines()[-1] == f"/{ME}/left goes on: iris-fed job logs -f /{ME}/left"
    assert hub.state("left") == "RUNNING"
    hub.cancel("left")


@pytest.mark.parametrize(("answer", "state"), [("y", "KILLED"), ("", "RUNNING")])
def test_ctrl_c_at_a_terminal_offers_to_cancel(hub: Cluster, answer: str, state: str) -> None:
    name = f"asked-{answer}"
    with Terminal("job", "run", "--name", name, "--", "sh", "-c", "echo on; exec sleep 60", env=hub.env()) as terminal:
        terminal.until("\non")
        terminal.type(CTRL_C)
        terminal.until("Cancel it? [y/N]")
        terminal.type(answer.encode() + b"\n")
        assert terminal.end() == 130
    hub.until(name, state)
    hub.cancel(name)


def test_json_is_one_document_and_the_output_goes_to_stderr(hub: Cluster) -> None:
    ended = hub.run("job", "run", "--json", "--name", "document", "--", "sh", "-c", "echo the output; exit 2")
    assert ended.code == 2
    assert json.loads(ended.out)["job"]["exitCode"] == 2
    assert "the output\n" in ended.err
    assert hub.json("job", "run", "--no-wait", "--", "true")["jobId"].startswith(f"/{ME}/true-")


def test_the_command_needs_no_configuration_but_an_address(hub: Cluster, tmp_path: Path) -> None:
    shutil.copy(hub.state_dir / "admin.token", tmp_path / "token")
    env = clean_environment(IRIS_FED_TOKEN_FILE=str(tmp_path / "token"))
    assert iris_fed("job", "run", "--controller", hub.url, "--", "true", env=env).code == 0


def test_who_reads_an_endless_output_may_go_away_at_any_time(hub: Cluster) -> None:
    for words in (("job", "run", "--name", "endless", "--", "yes"), ("job", "logs", "endless")):
        with hub.begin(*words) as reader:
            assert reader.line() == "y\n"
            assert reader.process.stdout is not None
            reader.process.stdout.close()
            assert reader.process.wait(20.0) != 0
            assert reader.process.stderr is not None
            assert b"Traceback" not in reader.process.stderr.read()
    hub.cancel("endless")
    hub.until("endless", "KILLED")
    assert f"{whole_id('endless')} had ended: KILLED" in hub.run("job", "cancel", "endless").err
