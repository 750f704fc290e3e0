"""Reading a task's file so that a cut connection, or a restarted controller, costs no byte twice."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from connectrpc.code import Code
from connectrpc.errors import ConnectError

from iris_fed.client.failures import Patience, translate
from iris_fed.errors import Aborted
from iris_fed.rpc.connect_client import Channel
from iris_fed.rpc.gen.irisfed import cluster_pb2

STREAM_DEADLINE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Piece:
    """The next bytes of a file, and the size of the whole when reading began."""

    data: bytes
    size: int


async def read_resuming(channel: Channel, request: cluster_pb2.ReadFileRequest) -> AsyncIterator[Piece]:
    """From the request's offset to what was the end when reading began; at least one piece.

    Raises the user's error when the controller refuses or stays away for a minute, Aborted when the
    file changed its size between two tries or became shorter under the reader.
    """
    patience = Patience(channel.address)
    asked = cluster_pb2.ReadFileRequest()
    asked.CopyFrom(request)
    size: int | None = None
    while size is None or asked.offset < size:
        before = asked.offset
        try:
            async for answer in channel.streams.read_file(asked, timeout_ms=int(STREAM_DEADLINE_S * 1000)):
                patience.succeeded()
                if size is not None and answer.size < size:
                    raise Aborted(f"{asked.path} changed while it was read; fetch it again")
                size = answer.size if size is None else size
                data = answer.data[: size - asked.offset]
                asked.offset += len(data)
                yield Piece(data, size)
        except ConnectError as error:
            if error.code is Code.DEADLINE_EXCEEDED and asked.offset > before:
                continue
            if size is None and error.code is Code.DEADLINE_EXCEEDED:
                raise translate(error, channel.address) from error
            await patience.after(error)
            continue
        if size is None or asked.offset == before < size:
            raise Aborted(f"{asked.path} ended early; it may have changed while it was read")
