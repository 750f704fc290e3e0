"""Work directory files and commands in a task's place, both ways: a parent relays what its peer says."""

from iris_fed.model.files import ExecResult, FileChunk, FileEntry, FileListing
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.irisfed import cluster_pb2
from iris_fed.rpc.wire.checks import clamped, clipped

MAX_ENTRIES_TOLD = 10_000
_INT64_MAX = 2**63 - 1
_TIMED_OUT = "it did not end in time and was killed"
_CUT = "\n[cut here: the output was longer]\n"


def exec_result_to_wire(result: ExecResult) -> Controller.ExecInContainerResponse:
    """Outputs are text on the wire: what is no UTF-8 is replaced."""
    cut = _CUT if result.truncated else ""
    return Controller.ExecInContainerResponse(
        exit_code=result.exit_code,
        stdout=result.stdout.decode("utf-8", "replace") + cut,
        stderr=result.stderr.decode("utf-8", "replace"),
        error=_TIMED_OUT if result.exit_code is None else None,
    )


def exec_result_from_wire(answer: Controller.ExecInContainerResponse) -> ExecResult:
    exit_code = clamped(answer.exit_code, 255) if answer.HasField("exit_code") else None
    return ExecResult(exit_code, answer.stdout.encode(), answer.stderr.encode())


def listing_to_wire(listing: FileListing) -> cluster_pb2.ListFilesResponse:
    return cluster_pb2.ListFilesResponse(
        entries=[
            cluster_pb2.FileEntry(
                path=entry.path,
                is_folder=entry.is_folder,
                size=entry.size,
                modified_ms=entry.modified_ms,
                mode=entry.mode,
            )
            for entry in listing.entries
        ],
        truncated=listing.truncated,
    )


def listing_from_wire(answer: cluster_pb2.ListFilesResponse) -> FileListing:
    entries = [
        FileEntry(
            clipped(entry.path),
            entry.is_folder,
            clamped(entry.size, _INT64_MAX),
            clamped(entry.modified_ms, _INT64_MAX),
            clamped(entry.mode, 0o7777),
        )
        for entry in answer.entries[:MAX_ENTRIES_TOLD]
    ]
    return FileListing(tuple(entries), answer.truncated or len(answer.entries) > MAX_ENTRIES_TOLD)


def chunk_to_wire(chunk: FileChunk) -> cluster_pb2.ReadFileResponse:
    return cluster_pb2.ReadFileResponse(data=chunk.data, size=chunk.size)


def chunk_from_wire(message: cluster_pb2.ReadFileResponse) -> FileChunk:
    return FileChunk(message.data, clamped(message.size, _INT64_MAX))
