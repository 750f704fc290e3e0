"""`job wait` and `job cancel`: several jobs at once."""

from iris_fed.cli import formats
from iris_fed.cli.exits import WAIT_TIMED_OUT
from iris_fed.cli.job_run import news, report_end
from iris_fed.cli.session import as_json, full_ids
from iris_fed.cli.terminal import print_json, say
from iris_fed.client import Client
from iris_fed.errors import DeadlineExceeded, IrisFedError
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2


async def wait_for_all(client: Client, names: list[str], timeout_s: float | None, json: bool) -> int:
    """The exit code of the first job, as given, that failed; 124 when the time is up."""
    job_ids = await full_ids(client, names)
    try:
        statuses = await client.wait_all(job_ids, timeout_s)
    except DeadlineExceeded as error:
        say(error.message)
        return WAIT_TIMED_OUT
    for status in statuses:
        say(news(None, status))
    if json:
        print_json(as_json(Controller.ListJobsResponse(jobs=statuses)))
    return await _first_failure(client, statuses)


_OVER = frozenset(
    {
        job_pb2.JOB_STATE_SUCCEEDED,
        job_pb2.JOB_STATE_FAILED,
        job_pb2.JOB_STATE_KILLED,
        job_pb2.JOB_STATE_WORKER_FAILED,
        job_pb2.JOB_STATE_UNSCHEDULABLE,
    }
)


def _word(state: "job_pb2.JobState | None") -> str:
    return "" if state is None else formats.state(job_pb2.JobState.Name(state))


async def cancel_all(client: Client, names: list[str]) -> bool:
    """Whether every cancel was accepted; what was not is said, and the others go on."""
    accepted = True
    for job_id in await full_ids(client, names):
        try:
            before = (await client.job_states([job_id])).get(job_id)
            await client.cancel(job_id)
            over = before in _OVER
            say(f"{job_id} had ended: {_word(before)}" if over else f"{job_id} is being cancelled")
        except IrisFedError as error:
            named = job_id in error.message
            say(f"iris-fed: {error.message}" if named else f"iris-fed: {job_id}: {error.message}")
            accepted = False
    return accepted


async def _first_failure(client: Client, statuses: list[job_pb2.JobStatus]) -> int:
    for status in statuses:
        if status.state != job_pb2.JOB_STATE_SUCCEEDED:
            return await report_end(client, status, json=False)
    return 0
