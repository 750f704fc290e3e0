"""Removes what is over and past its time: outputs first, then jobs, then workspaces nobody uses, then
what federation remembers of them; and with the write-ahead log the last trace of secrets whose jobs
have ended.

Each round does a bounded amount in short transactions. A pruner that is behind or off never breaks
anything: it only keeps more.
"""

from collections.abc import Callable, Mapping
from functools import partial

import anyio

from iris_fed.backends.base import Backend, BackendUnavailable
from iris_fed.config.sections import RetentionSettings
from iris_fed.controller.prune_federation import FederationPruner
from iris_fed.model.limits import DAY_MS
from iris_fed.store.bundles import BundleStore, take_unused
from iris_fed.store.prune import expired_files, expired_jobs, mark_files_gone, remove_job
from iris_fed.store.requesters import Heard
from iris_fed.store.runtime import Runtime
from iris_fed.supervise import Pulse
from iris_fed.telemetry import get_logger

BATCH = 100
MAX_BATCHES = 50
"""In one round: the rest waits for the next."""
ROUND_S = 600.0
"""Longer than the slowest round: what is to be removed may be large."""

log = get_logger(__name__)


class Pruner:
    """`heard` tells how far each requester has read of the changelog."""

    def __init__(
        self,
        runtime: Runtime,
        retention: RetentionSettings,
        backends: Mapping[str, Backend],
        bundles: BundleStore,
        heard: Callable[[], Mapping[str, Heard]],
    ) -> None:
        self._runtime = runtime
        self._retention = retention
        self._backends = backends
        self._bundles = bundles
        self._federation = FederationPruner(runtime, heard)

    async def run(self, pulse: Pulse) -> None:
        """Until cancelled."""
        while True:
            pulse.beat(ROUND_S)
            await self.round()
            pulse.beat(self._retention.interval_s)
            await anyio.sleep(self._retention.interval_s)

    async def round(self) -> None:
        """One round; `BATCH * MAX_BATCHES` of each kind at most."""
        now_ms = self._runtime.clock.now_ms()
        for step in (self._outputs, self._jobs, self._workspaces):
            for _ in range(MAX_BATCHES):
                if await step(now_ms) < BATCH:
                    break
        await self._federation.round(now_ms)
        await self._runtime.db.checkpoint()

    async def _outputs(self, now_ms: int) -> int:
        before_ms = now_ms - int(self._retention.outputs_days * DAY_MS)
        found = await self._runtime.db.read(lambda tx: expired_files(tx, before_ms, BATCH))
        gone = [uid for backend_id, uid in found if await self._forget(backend_id, uid)]
        if gone:
            await self._runtime.db.write(lambda tx: mark_files_gone(tx, gone))
        return len(gone)

    async def _jobs(self, now_ms: int) -> int:
        before_ms = now_ms - int(self._retention.jobs_days * DAY_MS)
        uids = await self._runtime.db.read(lambda tx: expired_jobs(tx, now_ms, before_ms, BATCH))
        for uid in uids:
            attempts = await self._runtime.db.write(partial(remove_job, uid=uid, now_ms=now_ms))
            for backend_id, attempt_uid in attempts:
                await self._forget(backend_id, attempt_uid)
        if uids:
            log.info("jobs.pruned", count=len(uids))
        return len(uids)

    async def _workspaces(self, now_ms: int) -> int:
        before_ms = now_ms - int(self._retention.bundles_days * DAY_MS)
        keep = self._bundles.lately_put()
        ids = await self._runtime.db.write(lambda tx: take_unused(tx, before_ms, keep, BATCH))
        for bundle_id in ids:
            await self._bundles.remove(bundle_id)
        return len(ids)

    async def _forget(self, backend_id: str, attempt_uid: str) -> bool:
        """True when its files are gone; a backend that is not configured any more took them along."""
        backend = self._backends.get(backend_id)
        if backend is None:
            return True
        try:
            await backend.forget(attempt_uid)
        except (BackendUnavailable, OSError) as error:
            log.warning("files.not_removed", attempt=attempt_uid, error=str(error))
            return False
        return True
