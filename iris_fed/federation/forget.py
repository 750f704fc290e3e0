"""`iris-fed peer forget`: an operator's word that a peer never comes back. Only a person can know that."""

from iris_fed.decide import handoff
from iris_fed.federation.apart import apply_apart
from iris_fed.federation.mirror_children import end_children, end_left_behind
from iris_fed.model.federation import SentHandle
from iris_fed.store.commit import commit
from iris_fed.store.db import Tx
from iris_fed.store.handles import forget_cursor, left_behind, open_sent_page, update_sent
from iris_fed.store.jobs import job_by_id, load_draft
from iris_fed.store.runtime import Runtime
from iris_fed.telemetry import get_logger

BATCH = 200

log = get_logger(__name__)


async def forget_peer(runtime: Runtime, peer: str, who: str) -> int:
    """Ends every unfinished job that was handed to `peer` as lost, also where the peer is not declared any more;
    returns how many. Should the peer show them again, that is taken back."""
    count, after_id = 0, 0
    while True:
        now_ms = runtime.clock.now_ms()
        page, changed = await runtime.db.write(lambda tx: _forget_page(tx, peer, after_id, who, now_ms))  # noqa: B023
        runtime.signals.publish(changed)
        if not page:
            runtime.signals.publish(await runtime.db.write(lambda tx: _forget_children(tx, peer, now_ms)))  # noqa: B023
            await runtime.db.write(lambda tx: forget_cursor(tx, peer))
            log.info("peer.forgotten", peer=peer, jobs=count, by=who)
            return count
        count, after_id = count + len(page), page[-1]


def _forget_page(tx: Tx, peer: str, after_id: int, who: str, now_ms: int) -> tuple[list[int], set[int]]:
    """The row ids of the handles closed, and the uids of what changed."""
    page, changed = open_sent_page(tx, peer, after_id, BATCH), set[int]()
    for _, handle in page:
        changed |= apply_apart(tx, handle, lambda h=handle: _forget_one(tx, h, who, now_ms)) or set()  # type: ignore[misc]
    return [row for row, _ in page], changed


def _forget_children(tx: Tx, peer: str, now_ms: int) -> set[int]:
    """Whose root had ended before."""
    return {uid for child, _ in left_behind(tx, peer, now_ms) for uid in end_left_behind(tx, child, now_ms)}


def _forget_one(tx: Tx, handle: SentHandle, who: str, now_ms: int) -> set[int]:
    job = job_by_id(tx, handle.job_id)
    if job is None or job.nonce != handle.nonce:
        return set()
    draft = load_draft(tx, job)
    after = handoff.on_forgotten(handle, draft, who, now_ms)
    commit(tx, draft)
    update_sent(tx, handle, after)
    return {job.uid} | end_children(tx, job.job_id, now_ms)
