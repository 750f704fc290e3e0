"""Reading output so that a cut connection, or a restarted controller, costs neither a line nor a repetition."""

from collections.abc import AsyncIterator

from connectrpc.code import Code
from connectrpc.errors import ConnectError

from iris_fed.client.failures import Patience, translate
from iris_fed.rpc.connect_client import Channel
from iris_fed.rpc.gen.irisfed import cluster_pb2

STREAM_DEADLINE_S = 3600.0
"""One stream's life; a longer read goes on in the next."""


class Positions:
    """Where each attempt's output was read up to."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[str, int], int] = {}

    def note(self, line: cluster_pb2.LogLine) -> None:
        self._offsets[line.task_id, line.attempt_id] = line.next_offset

    def as_messages(self) -> list[cluster_pb2.LogPosition]:
        return [
            cluster_pb2.LogPosition(task_id=task, attempt_id=attempt, offset=offset)
            for (task, attempt), offset in self._offsets.items()
        ]


async def read_resuming(
    channel: Channel, request: cluster_pb2.ReadLogsRequest
) -> AsyncIterator[cluster_pb2.ReadLogsResponse]:
    """The answers to `request`, resumed where it was cut. Raises the user's error when the controller
    refuses, or stays away for a minute."""
    positions = Positions()
    patience = Patience(channel.address)
    while True:
        asked = cluster_pb2.ReadLogsRequest()
        asked.CopyFrom(request)
        asked.positions.extend(positions.as_messages())
        try:
            async for response in channel.streams.read_logs(asked, timeout_ms=int(STREAM_DEADLINE_S * 1000)):
                patience.succeeded()
                for line in response.lines:
                    positions.note(line)
                yield response
            return
        except ConnectError as error:
            if error.code is Code.DEADLINE_EXCEEDED and request.follow:
                continue
            if error.code is Code.DEADLINE_EXCEEDED:
                raise translate(error, channel.address) from error
            await patience.after(error)
