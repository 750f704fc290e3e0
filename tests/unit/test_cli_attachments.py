"""What `job run` makes of its newer flags, and what it reads from here."""

from pathlib import Path

import pytest

from iris_fed.cli import command
from iris_fed.cli.job_attachments import (
    FILES,
    MAX_FILES_BYTES,
    MAX_SECRET_BYTES,
    Attachments,
    read_files,
    read_secrets,
)
from iris_fed.cli.job_describe import constraint_text
from iris_fed.cli.job_exec import timeout_seconds
from iris_fed.cli.job_list import more_text
from iris_fed.cli.job_request import JobFlags, build_request, shown_argv
from iris_fed.cli.parse import UsageError
from iris_fed.cli.session import home
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2

SECRET = "hunter2-which-nobody-sees"


def test_each_flag_of_a_larger_job_reaches_the_request() -> None:
    flags = JobFlags(
        preferences=("region=eu", "driver>=550"),
        setup=("pip install x", "make"),
        setup_timeout="10m",
        gang=True,
        max_task_failures=3,
        max_retries_preemption=4,
    )
    attachments = Attachments({"TOKEN": SECRET}, {"conf/a.yaml": b"a: 1"}, b"zip", {"key.pem": SECRET})
    request = build_request(flags, ["train"], {}, "x", attachments)
    assert [constraint_text(one) for one in request.constraints] == ["region=eu (preferred)", "driver>=550 (preferred)"]
    assert list(request.entrypoint.setup_commands) == ["pip install x", "make"]
    assert (request.setup_timeout.milliseconds, request.coscheduling.group_by) == (600_000, "backend")
    assert (request.max_task_failures, request.max_retries_preemption) == (3, 4)
    assert dict(request.environment.secrets) == {"TOKEN": SECRET, "file:key.pem": SECRET}
    assert dict(request.entrypoint.workdir_files) == {"conf/a.yaml": b"a: 1"}
    assert request.bundle_blob == b"zip"


def test_what_a_larger_job_may_have_is_absent_when_it_was_not_asked_for() -> None:
    request = build_request(JobFlags(), ["sh"], {}, "x")
    for field in ("setup_timeout", "coscheduling", "max_task_failures", "max_retries_preemption", "bundle_blob"):
        assert not request.HasField(field), field
    assert not request.environment.secrets


def test_a_preference_that_makes_no_sense_names_its_own_flag() -> None:
    with pytest.raises(UsageError, match="--prefer 'region'"):
        build_request(JobFlags(preferences=("region",)), ["sh"], {}, "x")


def test_a_secret_is_read_from_a_variable_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET + "\n")
    (tmp_path / "key").write_text("two\nlines\n\n")
    references = ["A=env:MINE", f"B=file:{tmp_path}/token", f"C=file:{tmp_path}/key"]
    assert read_secrets(references, {"MINE": SECRET}) == {"A": SECRET, "B": SECRET, "C": "two\nlines\n"}


def test_a_secret_file_is_sent_as_it_is_to_its_last_newline(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("two\nlines\n\n")
    references = [f"id_rsa.pem=file:{tmp_path}/key", ".netrc=env:MINE"]
    assert read_secrets(references, {"MINE": SECRET}, FILES) == {"id_rsa.pem": "two\nlines\n\n", ".netrc": SECRET}


@pytest.mark.parametrize("flag", ["--secret", "--secret-file"])
@pytest.mark.parametrize(
    ("reference", "says"),
    [
        (SECRET, "NAME=env:VARIABLE"),
        (f"TOKEN={SECRET}", "TOKEN=env:VARIABLE"),
        (f"TOKEN=value:{SECRET}", "TOKEN=env:VARIABLE"),
        (f"{SECRET}/=env:X", "NAME=env:VARIABLE"),
        (f"../{SECRET}=env:X", "NAME=env:VARIABLE"),
        ("TOKEN=env:", "TOKEN=env:VARIABLE"),
        ("TOKEN=env:UNSET", "UNSET is not set"),
        ("TOKEN=file:/nonexistent", "no file /nonexistent"),
        ("TOKEN=file:/", "no file /"),
    ],
)
def test_a_secret_that_was_typed_in_place_is_refused_and_not_repeated(
    capsys: pytest.CaptureFixture[str], flag: str, reference: str, says: str
) -> None:
    assert command(["job", "run", "--controller", "http://127.0.0.1:1", flag, reference, "--", "true"]) == 2
    shown = capsys.readouterr()
    assert says in shown.err
    assert flag in shown.err
    assert SECRET not in shown.err + shown.out


def test_a_secret_that_no_variable_can_hold_is_refused_without_its_value(tmp_path: Path) -> None:
    for content, says in ((b"x" * (MAX_SECRET_BYTES + 1), "too large"), (b"a\0b", "NUL"), (b"\xff", "UTF-8")):
        (tmp_path / "secret").write_bytes(content)
        with pytest.raises(UsageError, match=rf"--secret TOKEN: .*{says}"):
            read_secrets([f"TOKEN=file:{tmp_path}/secret"], {})


def test_neither_the_shown_command_line_nor_a_printed_request_of_the_flags_holds_a_secret() -> None:
    typed = ["job", "run", "--secret", "TOKEN=env:MINE", "--", "train"]
    assert shown_argv(typed, 1) == ["iris-fed", *typed]
    assert SECRET not in repr(Attachments({"TOKEN": SECRET}, secret_files={"key": SECRET}))


def test_single_files_keep_their_name_or_get_another(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"a")
    (tmp_path / "odd:name").write_bytes(b"odd")
    files = read_files([f"{tmp_path}/a.yaml", f"{tmp_path}/a.yaml:conf/b.yaml", f"{tmp_path}/odd:name"])
    assert files == {"a.yaml": b"a", "conf/b.yaml": b"a", "odd:name": b"odd"}


@pytest.mark.parametrize("argument", ["nowhere", "{here}", "{here}/a:../b", "{here}/a:/b", "{here}/a:", "{here}/large"])
def test_a_single_file_that_cannot_be_sent_is_a_usage_error(tmp_path: Path, argument: str) -> None:
    (tmp_path / "a").touch()
    with (tmp_path / "large").open("wb") as large:
        large.truncate(MAX_FILES_BYTES + 1)
    with pytest.raises(UsageError, match="--file"):
        read_files([argument.format(here=tmp_path)])


@pytest.mark.parametrize(("text", "seconds"), [("", 60), ("1s", 1), ("1500ms", 2), ("10m", 600)])
def test_a_commands_time_is_whole_seconds_rounded_up(text: str, seconds: int) -> None:
    assert timeout_seconds(text) == seconds


def test_a_commands_time_is_at_most_ten_minutes() -> None:
    with pytest.raises(UsageError, match="at most 10m"):
        timeout_seconds("601s")


def test_a_list_that_goes_on_says_how() -> None:
    jobs = [job_pb2.JobStatus(job_id=f"/me/{number}x") for number in range(2)]
    page = Controller.ListJobsResponse(jobs=jobs, total_count=7, has_more=True, next_page_token="abc=")
    assert more_text(page, 2) == "2 of 7 jobs; the next: --page abc="
    assert more_text(Controller.ListJobsResponse(jobs=jobs, total_count=2), 2) == ""
    assert "--limit" in more_text(Controller.ListJobsResponse(jobs=jobs), 2)


def test_a_bare_name_is_a_child_inside_a_task_and_a_root_job_elsewhere() -> None:
    environ = {"IRIS_JOB_ID": "/alice/sweep"}
    task = job_pb2.GetCurrentUserResponse(user_id="alice", role="job")
    person = job_pb2.GetCurrentUserResponse(user_id="alice", role="user")
    assert home(task, environ) == "/alice/sweep/"
    assert home(person, environ) == home(person, {}) == "/alice/"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["job", "fetch", "train", "."], "DEST"),
        (["job", "list", "--sort", "size"], "--sort"),
        (["job", "exec", "train", "--timeout", "1h", "--", "true"], "--timeout"),
        (["job", "exec", "train"], "COMMAND"),
    ],
)
def test_a_mistake_in_a_newer_command_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert command(arguments) == 2
    assert says in capsys.readouterr().err
