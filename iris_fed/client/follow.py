"""Following jobs to their ends. An id names whichever submission came last, so the one that is followed
is known by its time of submission, and nobody gets another's end for it."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from connectrpc.errors import ConnectError

from iris_fed.client.failures import Patience
from iris_fed.errors import FailedPrecondition, NotFound
from iris_fed.rpc.connect_client import Channel
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2

FIRST_POLL_S = 0.05
LONGEST_POLL_S = 1.0
POLL_GROWTH = 1.3
END_STATES = frozenset(
    {
        job_pb2.JOB_STATE_SUCCEEDED,
        job_pb2.JOB_STATE_FAILED,
        job_pb2.JOB_STATE_KILLED,
        job_pb2.JOB_STATE_WORKER_FAILED,
        job_pb2.JOB_STATE_UNSCHEDULABLE,
    }
)


class Replaced(FailedPrecondition):
    """The job that was followed gave its id to another submission."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"{job_id} was replaced by another submission while it was followed")
        self.job_id = job_id


def check_same(before: job_pb2.JobStatus, now: job_pb2.JobStatus) -> None:
    """Raises Replaced unless both are of one submission."""
    if before.submitted_at.epoch_ms != now.submitted_at.epoch_ms:
        raise Replaced(before.job_id)


async def watch(channel: Channel, job_id: str) -> AsyncIterator[job_pb2.JobStatus]:
    """See `Client.watch`."""
    patience = Patience(channel.address)
    last: job_pb2.JobStatus | None = None
    pause_s = FIRST_POLL_S
    while True:
        try:
            status = await _status(channel, job_id)
        except ConnectError as error:
            await patience.after(error)
            continue
        patience.succeeded()
        check_same(last or status, status)
        if status != last:
            yield status
            last, pause_s = status, FIRST_POLL_S
        if status.state in END_STATES:
            return
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * POLL_GROWTH, LONGEST_POLL_S)


async def until_ended(channel: Channel, job_ids: Sequence[str]) -> list[job_pb2.JobStatus]:
    """See `Client.wait_all`, without a limit of time."""
    patience = Patience(channel.address)
    followed = _Followed(channel, job_ids)
    pause_s = FIRST_POLL_S
    while True:
        try:
            await followed.look()
        except ConnectError as error:
            await patience.after(error)
            continue
        patience.succeeded()
        if not followed.open:
            return [followed.statuses[job_id] for job_id in job_ids]
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * POLL_GROWTH, LONGEST_POLL_S)


class _Followed:
    """Several jobs; `open` are those that have not ended, `statuses` what was last seen of each."""

    def __init__(self, channel: Channel, job_ids: Sequence[str]) -> None:
        self._channel = channel
        self.open = list(dict.fromkeys(job_ids))
        self.statuses: dict[str, job_pb2.JobStatus] = {}

    async def look(self) -> None:
        """Ask for all states at once, and for the status of those that are new, have ended, or whose turn it is.

        The turn goes round, so that a replacement is noticed long before its end at one more call a look.
        """
        states = (await self._channel.controller.get_job_state(Controller.GetJobStateRequest(job_ids=self.open))).states
        for job_id in self.open:
            if job_id not in states:
                raise NotFound(f"there is no job {job_id}")
        turn = self.open[0]
        for job_id in list(self.open):
            if job_id == turn or job_id not in self.statuses or states[job_id] in END_STATES:
                await self._ask(job_id)
        if turn in self.open:
            self.open.remove(turn)
            self.open.append(turn)

    async def _ask(self, job_id: str) -> None:
        status = await _status(self._channel, job_id)
        check_same(self.statuses.setdefault(job_id, status), status)
        self.statuses[job_id] = status
        if status.state in END_STATES:
            self.open.remove(job_id)


async def _status(channel: Channel, job_id: str) -> job_pb2.JobStatus:
    return (await channel.controller.get_job_status(Controller.GetJobStatusRequest(job_id=job_id))).job
