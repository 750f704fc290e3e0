"""`job run` after the flags: submit, tell what becomes of it, end as the job ends."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass

from iris_fed.cli import formats
from iris_fed.cli.exits import CANNOT, INTERRUPTED, WAIT_TIMED_OUT
from iris_fed.cli.log_printer import LogPrinter, takes_sentences
from iris_fed.cli.parse import exit_code
from iris_fed.cli.session import as_json
from iris_fed.cli.terminal import print_json, say
from iris_fed.client import Client
from iris_fed.client.follow import check_same
from iris_fed.errors import DeadlineExceeded, IrisFedError
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2

LOG_GRACE_S = 10.0
"""How long a log may be silent after its job has ended before the rest is given up."""


@dataclass(slots=True)
class Run:
    """What one `job run` is to do; `job_id` is filled in once the controller has answered."""

    request: Controller.LaunchJobRequest
    wait: bool = True
    wait_timeout_s: float | None = None
    json: bool = False
    job_id: str = ""


async def submit_and_follow(client: Client, run: Run) -> int:
    """Returns the exit code of the command."""
    try:
        run.job_id = await client.submit(run.request)
    except DeadlineExceeded as error:
        raise DeadlineExceeded(f"{error.message}; it may have taken the job: see `iris-fed job list`") from error
    if not run.wait:
        if run.json:
            print_json(as_json(Controller.LaunchJobResponse(job_id=run.job_id)))
        else:
            print(run.job_id, flush=True)
        return 0
    say(f"submitted {run.job_id}")
    try:
        async with asyncio.timeout(run.wait_timeout_s):
            ended = await _follow(client, run)
    except TimeoutError:
        say(f"{run.job_id} has not ended; it goes on: iris-fed job logs -f {run.job_id}")
        return WAIT_TIMED_OUT
    return await report_end(client, ended, run.json)


async def report_end(client: Client, ended: job_pb2.JobStatus, json: bool) -> int:
    """The exit code of a job that has ended; with `json` its document goes to stdout.

    Raises Replaced when another submission has taken its id and there is more to ask than is known.
    """
    if ended.state == job_pb2.JOB_STATE_SUCCEEDED and not json:
        return 0
    tasks = list((await client.tasks(ended.job_id)).tasks)
    answer = await client.job(ended.job_id)
    check_same(ended, answer.job)
    if json:
        print_json(as_json(answer))
    return job_exit_code(answer.job, tasks)


def job_exit_code(job: job_pb2.JobStatus, tasks: list[job_pb2.TaskStatus]) -> int:
    """0, the code of the first failed task by index, or 125 when there is none."""
    ordered = sorted(tasks, key=lambda task: int(task.task_id.rpartition("/")[2]))
    ends = [
        (task.state == job_pb2.TASK_STATE_FAILED, task.exit_code if task.HasField("exit_code") else None)
        for task in ordered
    ]
    return exit_code(job.state == job_pb2.JOB_STATE_SUCCEEDED, ends, CANNOT)


def news(before: job_pb2.JobStatus | None, now: job_pb2.JobStatus) -> str:
    """One sentence about what is new in a job's status; "" when nothing is that a person asks for."""
    state = formats.state(job_pb2.JobState.Name(now.state))
    where = formats.place(now.cluster, now.backend_id)
    if now.HasField("finished_at"):
        took = formats.duration(now.finished_at.epoch_ms - now.submitted_at.epoch_ms)
        place = "" if where == "-" else f" on {where}"
        error = f": {now.error}" if now.error else ""
        return f"{now.job_id} {state}{place} after {took}{error}"
    if before is not None and now.failure_count > before.failure_count:
        return f"{now.job_id}: {formats.plural(now.failure_count, 'attempt')} failed"
    if before is not None and (before.state, before.pending_reason) == (now.state, now.pending_reason):
        handed = now.peer_status == job_pb2.PEER_STATUS_ASSIGNED and before.peer_status != now.peer_status
        return f"{now.job_id} was handed to {now.cluster}" if handed else ""
    if now.state == job_pb2.JOB_STATE_RUNNING:
        return f"{now.job_id} {state} on {where}"
    if now.pending_reason:
        return f"{now.job_id} {state}: {now.pending_reason}"
    return "" if before is None else f"{now.job_id} {state}"


def offer_cancel(run: Run, cancel_job: Callable[[str], None]) -> int:
    """After Ctrl+C: the job goes on, unless the person at the terminal wants it cancelled."""
    if not run.job_id:
        say("interrupted before the controller answered; see `iris-fed job list`")
        return INTERRUPTED
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        say(f"{run.job_id} goes on: iris-fed job logs -f {run.job_id}")
        return INTERRUPTED
    try:
        print(f"\n{run.job_id} goes on. Cancel it? [y/N] ", end="", file=sys.stderr, flush=True)
        wanted = sys.stdin.readline().strip().lower() in ("y", "yes")
        if wanted:
            cancel_job(run.job_id)
            say(f"{run.job_id} is being cancelled")
    except KeyboardInterrupt:
        print(file=sys.stderr)
    return INTERRUPTED


async def print_log(client: Client, job: job_pb2.JobStatus, printer: LogPrinter) -> None:
    """Follow that submission's output to its end; a log that cannot be read is said, not raised."""
    try:
        async for response in client.logs(job.job_id, follow=True, submitted_ms=job.submitted_at.epoch_ms):
            printer.show(response)
    except IrisFedError as error:
        printer.say(f"its output cannot be read: {error.message}")
    finally:
        printer.finish()


async def _follow(client: Client, run: Run) -> job_pb2.JobStatus:
    """Its last status. Raises Replaced when another submission took its id meanwhile."""
    out = sys.stderr if run.json else sys.stdout
    several = run.request.replicas > 1
    printer = LogPrinter(out.buffer, clean=out.isatty(), prefixed=several, shared=takes_sentences(out))
    log: asyncio.Task[None] | None = None
    me = asyncio.current_task()
    assert me is not None
    try:
        last: job_pb2.JobStatus | None = None
        async for status in client.watch(run.job_id):
            if log is None:
                log = asyncio.create_task(print_log(client, status, printer))
                # Who reads the output may go away at any time: then there is nobody to follow the job for.
                log.add_done_callback(lambda ended: me.cancel() if _failure(ended) else None)
            if status.HasField("finished_at"):
                await _rest_of(log, printer)
            if sentence := news(last, status):
                printer.say(sentence)
            last = status
    except asyncio.CancelledError:
        if log is None or (broken := _failure(log)) is None:
            raise
        me.uncancel()
        raise broken from None
    finally:
        if log is not None:
            log.cancel()
            await asyncio.gather(log, return_exceptions=True)
        printer.make_way()
    assert last is not None, "a watch gives at least one status"
    return last


def _failure(log: "asyncio.Task[None]") -> BaseException | None:
    return log.exception() if log.done() and not log.cancelled() else None


async def _rest_of(log: asyncio.Task[None], printer: LogPrinter) -> None:
    """Wait for the end of the log for as long as lines go on coming."""
    while True:
        shown = printer.lines_shown
        done, _ = await asyncio.wait({log}, timeout=LOG_GRACE_S)
        if done:
            log.result()
            return
        if printer.lines_shown == shown:
            printer.say("the rest of its output has not arrived; read it later with `iris-fed job logs`")
            return
