import io

import pytest

from iris_fed.cli.job_describe import constraint_text, resources_text
from iris_fed.cli.job_request import MAX_SHOWN_WORDS, JobFlags, build_request, shown_argv
from iris_fed.cli.job_run import job_exit_code, news
from iris_fed.cli.log_printer import LogPrinter
from iris_fed.cli.parse import UsageError
from iris_fed.rpc.gen.irisfed.cluster_pb2 import LogLine, ReadLogsResponse
from iris_fed.rpc.gen.job import job_pb2

FLAGS = JobFlags(
    name="train",
    env=("LR=0.1", "HOME"),
    gpu="H100x8",
    cpu="2",
    memory="8GB",
    disk="1TB",
    replicas=2,
    target_cluster="gpu-lab",
    region="eu",
    constraints=("driver>=550", "zone in a,b"),
    priority="batch",
    timeout="2h",
    scheduling_timeout="10m",
    max_retries=3,
    ports=("http",),
    if_exists="recreate",
)


def test_every_flag_reaches_the_request() -> None:
    request = build_request(FLAGS, ["python", "train.py"], {"HOME": "/home/me"}, "x")
    assert request.name == "train"
    assert list(request.entrypoint.run_command.argv) == ["python", "train.py"]
    assert dict(request.environment.env_vars) == {"LR": "0.1", "HOME": "/home/me"}
    assert resources_text(request.resources) == "2 cores, 8 GB memory, 1 TB disk, h100 x8"
    assert [constraint_text(constraint) for constraint in request.constraints] == [
        "driver>=550",
        "zone in a,b",
        "cluster=gpu-lab",
        "region=eu",
    ]
    assert (request.replicas, request.max_retries_failure, list(request.ports)) == (2, 3, ["http"])
    assert (request.timeout.milliseconds, request.scheduling_timeout.milliseconds) == (7_200_000, 600_000)
    assert request.priority_band == job_pb2.PRIORITY_BAND_BATCH
    assert request.existing_job_policy == job_pb2.EXISTING_JOB_POLICY_RECREATE


def test_what_was_not_asked_for_is_absent_from_the_request() -> None:
    request = build_request(JobFlags(), ["sh"], {}, "7f3a2c")
    assert request.name == "sh-7f3a2c"
    for field in ("resources", "timeout", "scheduling_timeout", "priority_band", "existing_job_policy"):
        assert not request.HasField(field)


@pytest.mark.parametrize(
    ("flags", "names"), [(JobFlags(priority="high"), "--priority"), (JobFlags(if_exists="maybe"), "--if-exists")]
)
def test_a_choice_that_does_not_exist_is_a_usage_error(flags: JobFlags, names: str) -> None:
    with pytest.raises(UsageError, match=names):
        build_request(flags, ["sh"], {}, "x")


def _line(task: int, data: bytes, dropped: int = 0) -> LogLine:
    return LogLine(task_id=f"/me/job/{task}", data=data, dropped_bytes=dropped, time_ms=1)


def _shown(*lines: LogLine, clean: bool = False, prefixed: bool = False) -> bytes:
    out = io.BytesIO()
    printer = LogPrinter(out, clean=clean, prefixed=prefixed)
    printer.show(ReadLogsResponse(lines=lines))
    printer.finish()
    return out.getvalue()


def test_output_to_a_pipe_is_the_tasks_own_bytes() -> None:
    assert _shown(_line(0, b"\x1b[31m\xff\n"), _line(0, b"no newline")) == b"\x1b[31m\xff\nno newline"


def test_output_to_a_terminal_is_stripped_and_ends_with_a_newline() -> None:
    assert _shown(_line(0, b"\x1b[31mred\x1b[0m"), clean=True) == b"red\n"


def test_lines_of_several_tasks_bear_their_index_and_never_run_together() -> None:
    lines = (_line(0, b"half of"), _line(1, b"other\n"), _line(0, b"a long "), _line(0, b"line\n"))
    assert _shown(*lines, prefixed=True) == b"[0] half of\n[1] other\n[0] a long line\n"


def test_dropped_output_is_marked_where_it_is_missing() -> None:
    assert (
        _shown(_line(0, b"before"), _line(0, b"after\n", dropped=9)) == b"before\n[9 bytes were dropped here]\nafter\n"
    )


def test_a_sentence_ends_an_unfinished_line_only_where_both_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    for shared, expected in ((True, b"half\n of it"), (False, b"half of it")):
        out = io.BytesIO()
        printer = LogPrinter(out, clean=False, shared=shared)
        printer.show(ReadLogsResponse(lines=[_line(0, b"half")]))
        printer.say("/me/job RUNNING")
        printer.show(ReadLogsResponse(lines=[_line(0, b" of it")]))
        assert out.getvalue() == expected
    assert capsys.readouterr().err == "/me/job RUNNING\n" * 2


def _task(index: int, state: job_pb2.TaskState, exit_code: int | None) -> job_pb2.TaskStatus:
    task = job_pb2.TaskStatus(task_id=f"/me/job/{index}", state=state)
    if exit_code is not None:
        task.exit_code = exit_code
    return task


def test_tasks_are_taken_by_index_whatever_order_they_come_in() -> None:
    tasks = [_task(10, job_pb2.TASK_STATE_FAILED, 10), _task(2, job_pb2.TASK_STATE_FAILED, 2)]
    assert job_exit_code(job_pb2.JobStatus(state=job_pb2.JOB_STATE_FAILED), tasks) == 2


def test_a_job_killed_before_it_ran_ends_without_a_code() -> None:
    tasks = [_task(0, job_pb2.TASK_STATE_KILLED, None)]
    assert job_exit_code(job_pb2.JobStatus(state=job_pb2.JOB_STATE_KILLED), tasks) == 125


def test_only_what_changed_is_told() -> None:
    pending = job_pb2.JobStatus(job_id="/me/j", state=job_pb2.JOB_STATE_PENDING, pending_reason="waits for gpu-lab")
    running = job_pb2.JobStatus(job_id="/me/j", state=job_pb2.JOB_STATE_RUNNING, cluster="gpu-lab", backend_id="local")
    ended = job_pb2.JobStatus(job_id="/me/j", state=job_pb2.JOB_STATE_FAILED, error="task 0 exited with 3")
    ended.submitted_at.epoch_ms, ended.finished_at.epoch_ms = 1000, 3500
    assert news(None, pending) == "/me/j PENDING: waits for gpu-lab"
    assert news(pending, pending) == ""
    assert news(pending, running) == "/me/j RUNNING on gpu-lab/local"
    assert news(running, ended) == "/me/j FAILED after 2.5s: task 0 exited with 3"


def test_a_job_that_has_only_just_been_taken_is_no_news_until_it_waits_for_something() -> None:
    pending = job_pb2.JobStatus(job_id="/me/j", state=job_pb2.JOB_STATE_PENDING)
    waiting = job_pb2.JobStatus(job_id="/me/j", state=job_pb2.JOB_STATE_PENDING, pending_reason="no GPU is free")
    assert news(None, pending) == ""
    assert news(pending, waiting) == "/me/j PENDING: no GPU is free"


def test_each_failed_attempt_is_told_and_the_end_says_where_it_was() -> None:
    first = job_pb2.JobStatus(job_id="/me/j", state=job_pb2.JOB_STATE_RUNNING, cluster="lab", failure_count=0)
    second = job_pb2.JobStatus(job_id="/me/j", state=job_pb2.JOB_STATE_PENDING, cluster="lab", failure_count=1)
    ended = job_pb2.JobStatus(job_id="/me/j", state=job_pb2.JOB_STATE_SUCCEEDED, cluster="lab", failure_count=1)
    ended.submitted_at.epoch_ms, ended.finished_at.epoch_ms = 1000, 1040
    assert news(first, second) == "/me/j: 1 attempt failed"
    assert news(second, ended) == "/me/j SUCCEEDED on lab after 40ms"


def test_the_command_line_is_shown_without_the_values_of_its_variables_but_with_the_jobs_own_words() -> None:
    typed = ["job", "run", "-e", "A=1", "-eB=2", "-e", "HOME", "--", "python", "-e", "C=3"]
    masked = ["iris-fed", "job", "run", "-e", "A=***", "-eB=***", "-e", "HOME", "--", "python", "-e", "C=3"]
    assert shown_argv(typed, 3) == masked
    assert shown_argv(["job", "run", *["x"] * MAX_SHOWN_WORDS], MAX_SHOWN_WORDS) == []
