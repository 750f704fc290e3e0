"""Starts attempts that are committed and ends those that are doomed, one call to a backend each.

Neither is waited for: a workspace that takes long to unpack holds up nobody. What is doomed is not
started any more, also when an earlier try to start it has failed (promise 5).
"""

from collections.abc import Iterable, Mapping, Sequence, Set

import anyio
from anyio.abc import TaskGroup

from iris_fed.backends.base import Backend, BackendUnavailable
from iris_fed.clock import Entropy
from iris_fed.controller.launching import Launch, with_siblings
from iris_fed.decide.backoff import backoff_ms
from iris_fed.model.jobs import LiveAttempt
from iris_fed.supervise import Wakeup
from iris_fed.telemetry import get_logger

RETRY_BASE_MS = 200
RETRY_MAX_MS = 10_000
SLOW_LAUNCH_S = 60.0
CALL_LIMIT_S = 600.0
"""Of a launch (it may unpack a large workspace) or a kill; then it is logged and tried again."""

log = get_logger(__name__)


class AttemptDriver:
    """`wake` is called when there is something to look at again; `group` runs the calls."""

    def __init__(self, backends: Mapping[str, Backend], entropy: Entropy, wake: Wakeup) -> None:
        self._backends = backends
        self._entropy = entropy
        self._wake = wake
        self._waiting: dict[str, Launch] = {}
        self._starting: dict[str, float] = {}
        self._resting: set[str] = set()
        self._tried: set[str] = set()
        self._since: dict[str, float] = {}
        self._doomed: set[str] = set()
        self._killing: set[str] = set()
        self._start_tries = 0
        self._kill_tries = 0
        self.group: TaskGroup | None = None

    @property
    def in_hand(self) -> frozenset[str]:
        """Uids of attempts that wait to be started, or are being started."""
        return frozenset(self._waiting.keys() | self._starting.keys())

    def slow(self) -> tuple[str, ...]:
        """Sentences about calls that take long."""
        now = anyio.current_time()
        return tuple(
            f"attempt {uid} has been starting for {now - since:.0f} s"
            for uid, since in sorted(self._since.items())
            if now - since > SLOW_LAUNCH_S
        )

    def add(self, launches: Iterable[Launch]) -> None:
        """Committed attempts: they are started, now or later."""
        self._waiting |= {launch.request.attempt_uid: launch for launch in launches}

    async def start_all(self) -> None:
        """Begin to start all that wait, but for the doomed and those that rest after a failure."""
        await self._acquaint()
        held = self._starting.keys() | self._resting | self._doomed
        for unit in self._units():
            uids = [launch.request.attempt_uid for launch in unit]
            if held.isdisjoint(uids):
                self._starting |= dict.fromkeys(uids, anyio.current_time())
                self._calls.start_soon(self._start, unit)
        # Each reserves its capacity before it first waits, so that the next pass sees what is left.
        await anyio.lowlevel.checkpoint()

    def end_all(self, doomed: Sequence[LiveAttempt]) -> list[str]:
        """Begin to end these; returns the uids of those that never started, and now never will."""
        self._doomed = {attempt.attempt_uid for attempt in doomed}
        self._killing &= self._doomed
        never_started = []
        for attempt in doomed:
            uid = attempt.attempt_uid
            if uid in self._waiting and uid not in self._starting and uid not in self._tried:
                never_started.append(uid)
            elif attempt.backend_id in self._backends and uid not in self._killing:
                self._killing.add(uid)
                self._calls.start_soon(self._kill, self._backends[attempt.backend_id], uid)
        return never_started

    def drop(self, uid: str) -> None:
        """It has started, or it is recorded that it never did."""
        self._waiting.pop(uid, None)
        self._since.pop(uid, None)

    @property
    def _calls(self) -> TaskGroup:
        assert self.group is not None
        return self.group

    async def _kill(self, backend: Backend, uid: str) -> None:
        try:
            with anyio.fail_after(CALL_LIMIT_S):
                await backend.kill(uid)
        except Exception as error:
            if isinstance(error, BackendUnavailable | TimeoutError):
                log.warning("attempt.not_killed", attempt=uid, error=str(error) or "no answer in time")
            else:
                log.warning("attempt.not_killed", attempt=uid, exc_info=error)
            self._kill_tries += 1
            await anyio.sleep(self._pause_s(self._kill_tries))
            self._killing.discard(uid)
            self._wake()
            return
        self._kill_tries = 0
        if uid in self._waiting and uid not in self._starting:
            # A try to start it had failed, perhaps only in its answer: now it certainly does not run.
            self._tried.discard(uid)
            self._killing.discard(uid)
            self._wake()

    def _units(self) -> list[list[Launch]]:
        """What waits, those that start together in one unit."""
        units: dict[str, list[Launch]] = {}
        for uid, launch in self._waiting.items():
            units.setdefault(f"{launch.backend_id} {launch.together}" if launch.together else uid, []).append(launch)
        return list(units.values())

    async def _start(self, unit: Sequence[Launch]) -> None:
        uids = {launch.request.attempt_uid for launch in unit}
        self._tried |= uids
        for uid in uids:
            self._since.setdefault(uid, anyio.current_time())
        try:
            with anyio.fail_after(CALL_LIMIT_S):
                await self._launch(unit)
        except Exception as error:
            if isinstance(error, BackendUnavailable):
                log.warning("backend.unavailable", backend=unit[0].backend_id, error=str(error))
            else:
                log.error("launch.failed", attempts=sorted(uids), exc_info=error)
            self._resting |= uids
            self._calls.start_soon(self._rest, uids)
        else:
            self._start_tries = 0
            for uid in uids:
                self.drop(uid)
            self._tried -= uids
        finally:
            for uid in uids:
                del self._starting[uid]
            if told_to_end := self._killing & uids:
                # While it was being started, which a backend may not have understood.
                self._killing -= told_to_end
                self._wake()

    async def _launch(self, unit: Sequence[Launch]) -> None:
        backend = self._backends[unit[0].backend_id]
        if unit[0].together:
            await backend.launch_gang([launch.request for launch in unit])
        else:
            await backend.launch(unit[0].request)

    async def _rest(self, uids: Set[str]) -> None:
        self._start_tries += 1
        await anyio.sleep(self._pause_s(self._start_tries))
        self._resting -= uids
        self._wake()

    def _pause_s(self, tries: int) -> float:
        return backoff_ms(tries, RETRY_BASE_MS, RETRY_MAX_MS, self._entropy.jitter()) / 1000

    async def _acquaint(self) -> None:
        """Tell members of a gang where to find each other, all at once and only once."""
        gangs: dict[str, list[Launch]] = {}
        for launch in self._waiting.values():
            if launch.gang:
                gangs.setdefault(launch.gang, []).append(launch)
        for members in gangs.values():
            members.sort(key=lambda member: member.task_index)
            backend = self._backends[members[0].backend_id]
            ports = await backend.allot_ports([member.request for member in members])
            addresses = [backend.address(member.request.node) for member in members]
            self.add(with_siblings(members, addresses, ports))
