"""What we have to tell one peer: deliveries and cancels, tried until they are answered.

Ordered per job (one request about a handle at a time), bounded in number, and durable: what is
due is read from the handles, so that a restart goes on where a crash cut off.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import anyio

from iris_fed.config.sections import FederationSettings
from iris_fed.decide import handoff
from iris_fed.decide.draft import Draft
from iris_fed.federation.mirror_children import end_children
from iris_fed.federation.request import delivery_of
from iris_fed.model.federation import PeerState, Refusal, SentHandle
from iris_fed.model.ids import fold_remote_id, parse_job_id
from iris_fed.model.jobs import Job
from iris_fed.model.ports import PeerClient, PeerRefused, PeerUnreachable
from iris_fed.model.spec import Submission
from iris_fed.model.states import SentState
from iris_fed.store.bundles import BundleStore
from iris_fed.store.commit import commit
from iris_fed.store.db import Tx
from iris_fed.store.handles import (
    cancelled_children,
    due_sent,
    next_due_ms,
    open_sent,
    sent_by_nonce,
    update_sent,
)
from iris_fed.store.jobs import job_by_id, load_draft, with_secrets
from iris_fed.store.runtime import Runtime
from iris_fed.supervise import Pulse, Wakeup
from iris_fed.telemetry import get_logger

SAFETY_INTERVAL_S = 30.0
MAX_STRAYS = 1_000
NOT_FEDERATED = "did not federate"
"""With these words an Iris controller denies what it does not have."""
MAKING_SURE = "a delivery may still be under way; it is told again until none can be accepted any more"
SLOWEST_BYTES_PER_S = 256 * 1024
"""A link that carries a bundle more slowly than this does not carry it."""

log = get_logger(__name__)
Step = Callable[[SentHandle, Draft, int], SentHandle]


class Outbox:
    """`peer_state` tells what is known of the peer now."""

    def __init__(
        self,
        runtime: Runtime,
        settings: FederationSettings,
        peer: str,
        client: PeerClient,
        bundles: BundleStore,
        peer_state: Callable[[], PeerState],
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._peer = peer
        self._client = client
        self._bundles = bundles
        self._peer_state = peer_state
        self._in_flight: dict[str, asyncio.Event] = {}
        self._strays: set[tuple[str, str]] = set()
        self._cancelling_strays = False
        self._group: anyio.abc.TaskGroup | None = None
        self.wake = Wakeup()
        self.last_refusal: Refusal | None = None

    async def run(self, pulse: Pulse) -> None:
        """Until cancelled."""
        self._in_flight.clear()
        self._cancelling_strays = False
        await self.doubt_unanswered()
        self.cancel_strays(await self._children_to_cancel())
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                while True:
                    pulse.beat()
                    wait_s = await self._send_due(group)
                    pulse.beat(wait_s)
                    await self.wake.wait(wait_s)
        finally:
            self._group = None

    async def doubt_unanswered(self) -> None:
        """What was under way when we went down may have arrived: its answer is not known."""
        await self._runtime.db.write(lambda tx: _doubt_sent(tx, self._peer))

    async def deliver_now(self, nonce: str) -> None:
        """The first delivery of a handle that its transaction marked sent; returns when it is
        answered, or after the call's deadline."""
        if self._group is None:
            return
        done = self._start(self._group, nonce, first=True)
        with anyio.move_on_after(self._settings.call_timeout_s):
            await done.wait()

    async def retry_now(self) -> None:
        """The peer is back: forget the back-offs."""
        await self._runtime.db.write(lambda tx: _forget_backoff(tx, self._peer))
        self.wake()

    def cancel_strays(self, strays: tuple[tuple[str, str], ...]) -> None:
        """Incarnations that are over here but alive there, and children to be cancelled there: remote
        job id and nonce."""
        for remote_id, nonce in strays:
            if len(self._strays) < MAX_STRAYS:
                self._strays.add((remote_id, nonce))
        if strays:
            self.wake()

    async def _send_due(self, group: anyio.abc.TaskGroup) -> float:
        now_ms = self._runtime.clock.now_ms()
        room = self._settings.outbox_concurrency - len(self._in_flight)
        # More than there is room for is read because some of them may be under way already.
        due = await self._runtime.db.read(
            lambda tx: due_sent(tx, self._peer, now_ms, self._settings.outbox_concurrency * 2)
        )
        for handle in due:
            if room > 0 and handle.nonce not in self._in_flight and self._may_go(handle, now_ms):
                self._start(group, handle.nonce, first=False)
                room -= 1
        if self._strays and not self._cancelling_strays:
            self._cancelling_strays = True
            group.start_soon(self._cancel_strays)
        at_ms = await self._runtime.db.read(lambda tx: next_due_ms(tx, self._peer))
        if at_ms is None or at_ms <= now_ms:
            # What is due and not started waits for an answer or a full set, both of which wake us, or expires.
            at_ms = min((h.expires_ms for h in due if h.expires_ms > now_ms), default=None)
        if at_ms is None:
            return SAFETY_INTERVAL_S
        return min(SAFETY_INTERVAL_S, max(0.0, (at_ms - self._runtime.clock.now_ms()) / 1000))

    def _may_go(self, handle: SentHandle, now_ms: int) -> bool:
        expired = handle.state is SentState.PENDING_HANDOFF and handle.expires_ms <= now_ms
        return self._peer_state().full_set_done or handle.cancelled_ms is not None or expired

    def _start(self, group: anyio.abc.TaskGroup, nonce: str, *, first: bool) -> asyncio.Event:
        if nonce in self._in_flight:
            return self._in_flight[nonce]
        done = self._in_flight[nonce] = asyncio.Event()
        group.start_soon(self._send, nonce, first, done)
        return done

    async def _send(self, nonce: str, first: bool, done: asyncio.Event) -> None:
        try:
            await self._send_one(nonce, first)
        except Exception as error:
            log.error("outbox.failed", peer=self._peer, nonce=nonce, exc_info=error)
            await self._settle(nonce, lambda h, d, now: self._unanswered(h, d, "an internal error", True, now))
        finally:
            self._in_flight.pop(nonce, None)
            done.set()
            self.wake()

    async def _send_one(self, nonce: str, first: bool) -> None:
        now_ms, known = self._runtime.clock.now_ms(), self._peer_state()
        away, database_id = known.lost_contact_ms is not None, known.database_id
        if first and not away and (ready := await self._runtime.db.read(self._as_submitted(nonce, now_ms))):
            # The submitting transaction has marked it sent: nothing more is to be written first.
            await self._deliver(*ready)
            return
        found = await self._runtime.db.write(
            lambda tx: _next_step(tx, (self._peer, nonce), database_id, now_ms, leaves=not away, first=first)
        )
        if found is None:
            return
        handle, job = found
        if handle.cancelled_ms is not None:
            await self._terminate(handle)
        elif handle.expires_ms <= now_ms:
            await self._settle(nonce, handoff.on_expired)
        elif away:
            # It would not get through, and what never left need not be fenced later.
            await self._settle(nonce, lambda h, d, now: self._unanswered(h, d, known.last_error, False, now))
        else:
            await self._deliver(handle, job)

    def _as_submitted(self, nonce: str, now_ms: int) -> Callable[[Tx], tuple[SentHandle, Job] | None]:
        def find(tx: Tx) -> tuple[SentHandle, Job] | None:
            handle = sent_by_nonce(tx, self._peer, nonce)
            job = job_by_id(tx, handle.job_id) if handle is not None else None
            if handle is None or job is None or job.nonce != nonce or not handle.sent:
                return None
            fresh = handle.state is SentState.PENDING_HANDOFF and handle.cancelled_ms is None
            return (handle, with_secrets(tx, job)) if fresh and handle.expires_ms > now_ms else None

        return find

    async def _deliver(self, handle: SentHandle, job: Job) -> None:
        with self._runtime.tracing.span("handoff", handle.job_id, job=handle.job_id, peer=self._peer):
            await self._try_to_deliver(handle, job)

    async def _try_to_deliver(self, handle: SentHandle, job: Job) -> None:
        meters = self._runtime.meters
        if handle.deliveries > 1:
            meters.redriven(self._peer)
        try:
            submission = await self._submission(handle, job)
            with anyio.fail_after(self._settings.call_timeout_s + len(submission.bundle) / SLOWEST_BYTES_PER_S):
                await self._client.deliver(submission)
        except PeerRefused as refusal:
            words = refusal.message
            if refusal.code in handoff.FINAL_REFUSALS:
                self._note_refusal(handle, refusal)
                await self._settle(handle.nonce, lambda h, d, now: handoff.on_refused(h, d, words, now))
            else:
                meters.call_failed(self._peer, "deliver")
                error = f"it answered {refusal.code}: {words}"
                await self._settle(handle.nonce, lambda h, d, now: self._unanswered(h, d, error, False, now))
        except (PeerUnreachable, TimeoutError) as failure:
            meters.call_failed(self._peer, "deliver")
            error = failure.message if isinstance(failure, PeerUnreachable) else "no answer in time"
            arrived = not isinstance(failure, PeerUnreachable) or failure.arrived
            await self._settle(handle.nonce, lambda h, d, now: self._unanswered(h, d, error, arrived, now))
        else:
            meters.handed_off(self._peer, max(0, self._runtime.clock.now_ms() - handle.created_ms) / 1000)
            await self._settle(handle.nonce, handoff.on_ack)

    def _note_refusal(self, handle: SentHandle, refusal: PeerRefused) -> None:
        words, peer = refusal.message, self._peer
        log.info("handoff.refused", peer=peer, job=handle.job_id, code=refusal.code, words=words)
        self.last_refusal = Refusal(f"{handle.job_id}: {words}", self._runtime.clock.now_ms())
        self._runtime.meters.refused(peer, refusal.code)
        self._runtime.news.publish(peers=True)

    async def _submission(self, handle: SentHandle, job: Job) -> Submission:
        submission = delivery_of(handle, job, self._runtime.cluster)
        if not job.bundle_id:
            return submission
        return replace(submission, bundle=await self._bundles.read(job.bundle_id))

    async def _terminate(self, handle: SentHandle) -> None:
        known = self._peer_state()
        plain = known.full_set_done and not known.database_id
        overtaken = plain and handoff.cancel_may_be_overtaken(handle, self._runtime.clock.now_ms())
        try:
            with anyio.fail_after(self._settings.call_timeout_s):
                await self._client.terminate(handle.remote_job_id, handle.nonce)
        except PeerRefused as refusal:
            unknown = refusal.code == "not_found" or (plain and NOT_FEDERATED in refusal.message)
            if unknown and not overtaken:
                await self._settle(handle.nonce, handoff.on_cancel_unknown)
                return
            error = MAKING_SURE if unknown else f"it answered {refusal.code}: {refusal.message}"
            await self._settle(handle.nonce, lambda h, d, now: self._unanswered(h, d, error, False, now))
        except (PeerUnreachable, TimeoutError) as failure:
            error = failure.message if isinstance(failure, PeerUnreachable) else "no answer in time"
            await self._settle(handle.nonce, lambda h, d, now: self._unanswered(h, d, error, False, now))
        else:
            if overtaken:
                await self._settle(handle.nonce, lambda h, d, now: self._unanswered(h, d, MAKING_SURE, False, now))
            else:
                await self._settle(handle.nonce, partial(handoff.on_cancel_acked, plain=plain))

    async def _cancel_strays(self) -> None:
        try:
            for remote_id, nonce in sorted(self._strays):
                try:
                    with anyio.fail_after(self._settings.call_timeout_s):
                        await self._client.terminate(remote_id, nonce)
                except PeerRefused as refusal:
                    if refusal.code != "not_found":
                        log.warning("stray.not_cancelled", peer=self._peer, job=remote_id, error=str(refusal))
                        continue
                except (PeerUnreachable, TimeoutError) as failure:
                    # The others would fare no better; all are tried again at the next wake.
                    log.warning("stray.not_cancelled", peer=self._peer, job=remote_id, error=str(failure))
                    return
                self._strays.discard((remote_id, nonce))
        finally:
            self._cancelling_strays = False

    async def _children_to_cancel(self) -> tuple[tuple[str, str], ...]:
        """Those whose cancel a restart may have interrupted; hearing it twice does no harm."""
        children = await self._runtime.db.read(lambda tx: cancelled_children(tx, self._peer))
        own = self._runtime.cluster
        return tuple((str(fold_remote_id(parse_job_id(job_id), own)), nonce) for job_id, nonce in children)

    def _unanswered(self, handle: SentHandle, draft: Draft, error: str, arrived: bool, now_ms: int) -> SentHandle:
        return handoff.on_no_answer(
            handle,
            draft,
            error,
            arrived=arrived,
            now_ms=now_ms,
            max_backoff_ms=int(self._settings.max_backoff_s * 1000),
            jitter=self._runtime.entropy.jitter(),
        )

    async def _settle(self, nonce: str, step: Step) -> None:
        """Change the handle and its job by `step`, in one transaction."""
        now_ms = self._runtime.clock.now_ms()
        changed = await self._runtime.db.write(lambda tx: _settle(tx, self._peer, nonce, step, now_ms))
        self._runtime.signals.publish(changed)


def _next_step(
    tx: Tx, handle_of: tuple[str, str], database_id: str, now_ms: int, *, leaves: bool, first: bool
) -> tuple[SentHandle, Job] | None:
    """The handle of (peer, nonce) as it is now, marked sent to the peer's database `database_id` if a
    delivery `leaves` next; None = nothing to do."""
    peer, nonce = handle_of
    handle = sent_by_nonce(tx, peer, nonce)
    if handle is None or handle.state is SentState.CLOSED:
        return None
    job = job_by_id(tx, handle.job_id)
    if job is None or job.nonce != nonce:
        # It cannot be, and must not be asked for again at once.
        log.error("handle.without_job", peer=peer, job=handle.job_id, nonce=nonce)
        update_sent(tx, handle, replace(handle, next_try_ms=now_ms + int(SAFETY_INTERVAL_S * 1000)))
        return None
    if handle.cancelled_ms is not None:
        return None if handle.cancel_acked else (handle, job)
    believed = handoff.believe_taken(handle, database_id)
    if believed.state is not SentState.PENDING_HANDOFF:
        update_sent(tx, handle, believed)
        return None
    if leaves and handle.expires_ms > now_ms and not (first and handle.sent):
        marked = handoff.mark_sent(handle, database_id)
        update_sent(tx, handle, marked)
        handle = marked
    return handle, with_secrets(tx, job)


def _settle(tx: Tx, peer: str, nonce: str, step: Step, now_ms: int) -> set[int]:
    """The uids of the jobs that changed."""
    handle = sent_by_nonce(tx, peer, nonce)
    if handle is None:
        return set()
    job = job_by_id(tx, handle.job_id)
    if job is None or job.nonce != nonce:
        return set()
    draft = load_draft(tx, job)
    after = step(handle, draft, now_ms)
    commit(tx, draft)
    update_sent(tx, handle, after)
    # An end that the peer told of is none of ours: it goes on telling of the children.
    ends = draft.ended and job.finished_ms is None
    return {job.uid} | (end_children(tx, job.job_id, now_ms) if ends else set())


def _doubt_sent(tx: Tx, peer: str) -> None:
    for handle in open_sent(tx, peer):
        if handle.state is SentState.PENDING_HANDOFF and handle.sent and not handle.unanswered:
            update_sent(tx, handle, replace(handle, unanswered=True))


def _forget_backoff(tx: Tx, peer: str) -> None:
    for handle in open_sent(tx, peer):
        if handle.tries:
            update_sent(tx, handle, replace(handle, tries=0, next_try_ms=0))
