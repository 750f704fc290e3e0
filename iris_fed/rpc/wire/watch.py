"""What a page waits for, and what it is told."""

from iris_fed.controller.watch import Changes, Watch
from iris_fed.model.limits import MAX_KEY_CHARS
from iris_fed.rpc.gen.irisfed import cluster_pb2
from iris_fed.rpc.wire.checks import INT32_MAX, optional_word, whole


def watch_from_wire(message: cluster_pb2.WatchChangesRequest, who: str, root: str, owner: str | None) -> Watch:
    """`who` asks, for news of the tree of `root` ('' = of all) and of what is `owner`'s (None = of everybody).
    Raises InvalidArgument."""
    return Watch(
        who=who,
        position=optional_word(message.position, MAX_KEY_CHARS, "position"),
        root=root,
        places=not message.job_id,
        owner=owner,
        wait_ms=whole(message.wait_ms, 0, INT32_MAX, "wait_ms"),
    )


def changes_to_wire(changes: Changes) -> cluster_pb2.WatchChangesResponse:
    """Of more roots than are named none is: they are all to be looked at."""
    told = changes.tidings
    return cluster_pb2.WatchChangesResponse(
        position=changes.position,
        root_job_ids=sorted(told.roots),
        all_jobs=told.many,
        peers=told.peers,
        backends=told.backends,
    )
