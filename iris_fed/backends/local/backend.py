"""The local backend: this machine's processes as attempts, kept by a launcher that outlives us."""

import asyncio
import contextlib
import dataclasses
import secrets
import socket
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from iris_fed.backends.base import (
    AttemptEnd,
    BackendUnavailable,
    Ended,
    EndKind,
    Honours,
    Intake,
    LaunchRequest,
    LogPage,
    NotRunning,
    Observation,
    Owner,
    Recovery,
)
from iris_fed.backends.local.access import Access, Bounds
from iris_fed.backends.local.link import LauncherLink
from iris_fed.backends.local.records import AttemptRecord, Records
from iris_fed.backends.local.settings import LocalSettings
from iris_fed.backends.local.summary import machine_shape, summarise
from iris_fed.backends.local.tracker import Live, Tracker
from iris_fed.backends.news import News
from iris_fed.backends.posix import files, logfile, workdir
from iris_fed.backends.posix.accounts import NoAccount, account_of
from iris_fed.backends.posix.capacity import Ledger, lacking
from iris_fed.backends.posix.environment import task_environment
from iris_fed.backends.posix.files import Record
from iris_fed.backends.posix.ports import free_ports
from iris_fed.backends.posix.setup import SCRIPT, setup_marker, setup_script
from iris_fed.backends.posix.spawn import Account
from iris_fed.clock import Clock
from iris_fed.model.files import ExecResult, FileChunk, FileListing, NoSuchFile, UnsafeBundle
from iris_fed.model.resources import BackendSummary, NodeFree

_SHUTDOWN_PATIENCE_S = 30.0
_PROMISED_PORTS = 256
_SECRETS_VARIABLE = "IRIS_SECRETS_DIR"


class LocalBackend:
    """Implements `base.Backend`. Everything that blocks goes to threads."""

    def __init__(self, settings: LocalSettings, state_dir: Path, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._node = settings.name or socket.gethostname()
        self._owner = Owner("", "")
        self._ledger = Ledger(machine_shape(settings))
        self._news = News()
        self._records = Records(state_dir.absolute(), shows_the_way=settings.run_as is not None)
        self._tracker = Tracker(self._records, self._ledger, self._news, clock, self._node, settings)
        self._link = LauncherLink(self._records.state_dir, settings.idle_s, self._tracker.hear, self._tracker.resume)
        self._ports_lock = asyncio.Lock()
        self._promised: deque[int] = deque(maxlen=_PROMISED_PORTS)
        self._access = Access(self._records)
        self._epoch = 0

    @property
    def backend_id(self) -> str:
        return self._settings.backend_id

    @property
    def kind(self) -> str:
        return "local"

    async def start(self, owner: Owner) -> None:
        """Raises BackendUnavailable, or OSError when the state directory cannot be used."""
        self._owner = owner
        await asyncio.to_thread(self._records.prepare)
        await self._link.connect()

    async def close(self) -> None:
        await self._tracker.launches_done()
        await self._link.close()
        await self._tracker.close()

    async def destroy(self) -> None:
        """End every attempt and the launcher, then let go. Raises BackendUnavailable when it stays."""
        await self._tracker.launches_done()
        await self._tracker.orphans.kill_all()
        gone = await self._link.shut_down(_SHUTDOWN_PATIENCE_S)
        await self.close()
        if not gone:
            raise BackendUnavailable(f"the launcher (pid {self._link.pid}) did not leave")

    def summary(self) -> BackendSummary:
        self._epoch = max(self._epoch + 1, self._clock.now_ms())
        return summarise(self._settings, self._ledger, self._epoch, len(self._tracker.live))

    def nodes(self) -> Sequence[NodeFree]:
        free = self._ledger.free()
        shape = self._ledger.shape
        return (NodeFree(self._node, free.cpu_millicores, free.memory_bytes, free.devices, shape),)

    def refusals(self, request: Honours) -> tuple[str, ...]:
        """A process has no image, profile or network of its own, and its disk is not measured."""
        asked = {
            "task_image": bool(request.task_image),
            "container_profile": request.container_profile != 0,
            "egress_policy": request.egress_policy != 0,
            "resources.disk_bytes": request.disk_bytes > 0,
        }
        return tuple(name for name, is_asked in asked.items() if is_asked)

    def intake(self) -> Intake:
        return Intake()

    async def launch(self, request: LaunchRequest) -> None:
        """Raises ValueError for a uid that cannot name a directory."""
        uid = request.attempt_uid
        if not files.is_uid(uid):
            raise ValueError(f"an attempt uid is 1-64 letters, digits, '-' or '_', not {uid!r}")
        live = self._tracker.live.get(uid)
        if live is None and uid in self._tracker.known:
            await self._tracker.settle(uid)
            return
        if live is None:
            live = self._reserve(request)
        if live is not None and live.launch is not None:
            # Whoever waits may be cancelled; what was begun is brought to its end.
            await asyncio.shield(live.launch)

    async def launch_gang(self, requests: Sequence[LaunchRequest]) -> None:
        launches = [asyncio.ensure_future(self.launch(request)) for request in requests]
        # What one of them raises is told once none is left half begun.
        await asyncio.gather(*launches, return_exceptions=True)
        for launch in launches:
            launch.result()

    async def allot_ports(self, requests: Sequence[LaunchRequest]) -> Mapping[str, Mapping[str, int]]:
        names = [f"{request.attempt_uid}/{name}" for request in requests for name in request.ports]
        if not names:
            return {}
        async with self._ports_lock:
            free = await asyncio.to_thread(
                free_ports, self._settings.advertise_host, names, self._tracker.ports() | set(self._promised)
            )
            # Promised until the process that was promised it has had its time to listen.
            self._promised.extend(free.values())
        return {
            request.attempt_uid: {name: free[f"{request.attempt_uid}/{name}"] for name in request.ports}
            for request in requests
        }

    def address(self, node: str) -> str:
        return self._settings.advertise_host

    async def exec(self, attempt_uid: str, argv: Sequence[str], timeout_s: float, max_bytes: int) -> ExecResult:
        if attempt_uid not in self._tracker.live:
            raise NotRunning(attempt_uid)
        return await self._access.exec(attempt_uid, argv, Bounds(timeout_s, max_bytes, self._over(attempt_uid)))

    async def list_files(self, attempt_uid: str, path: str, limit: int) -> FileListing:
        if attempt_uid not in self._tracker.known:
            raise NoSuchFile(path, "is gone with its attempt's work directory")
        return await self._access.list_files(attempt_uid, path, limit)

    async def read_file(self, attempt_uid: str, path: str, offset: int, max_bytes: int) -> FileChunk:
        if attempt_uid not in self._tracker.known:
            raise NoSuchFile(path, "is gone with its attempt's work directory")
        return await self._access.read_file(attempt_uid, path, offset, max_bytes)

    async def kill(self, attempt_uid: str) -> None:
        """Raises BackendUnavailable."""
        live = self._tracker.live.get(attempt_uid)
        if live is None:
            return
        if live.launch is not None:
            await asyncio.wait([live.launch])
        if not self._tracker.kill_orphan(attempt_uid) and attempt_uid in self._tracker.live:
            await self._link.request("kill", uid=attempt_uid)
            # Its launcher may have died before it heard of this, and the next one knows nothing of it.
            self._tracker.kill_orphan(attempt_uid)

    async def observe(self) -> tuple[Observation, ...]:
        return await self._news.take()

    async def recover(self, live: Collection[str]) -> Recovery:
        await self._tracker.launches_done()
        states = {uid: await self._tracker.state_of(uid) for uid in live}
        return Recovery(
            tuple(state for state in states.values() if state is not None),
            frozenset(uid for uid, state in states.items() if state is None),
            self._tracker.strangers(live),
        )

    async def read_log(self, attempt_uid: str, offset: int, max_bytes: int, tail_lines: int = 0) -> LogPage:
        if attempt_uid not in self._tracker.known:
            return LogPage((), 0, True)
        # Asked before the files are read, so that what is read after an end is all there is.
        ended = attempt_uid not in self._tracker.live
        folder = self._records.folder(attempt_uid)
        return await asyncio.to_thread(logfile.read_log, folder, offset, max_bytes, tail_lines, ended)

    async def wait_log(self, attempt_uid: str, offset: int, timeout_s: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._until_output(attempt_uid, offset)
                return True
        return False

    async def forget(self, attempt_uid: str) -> None:
        if attempt_uid in self._tracker.known and attempt_uid not in self._tracker.live:
            await asyncio.to_thread(self._records.remove, attempt_uid)
            self._tracker.known.discard(attempt_uid)

    def _reserve(self, request: LaunchRequest) -> Live | None:
        """Capacity first, so that two launches never take the same; None when there is none."""
        uid = request.attempt_uid
        allotment = self._ledger.reserve(uid, request.resources)
        if allotment is None:
            message = lacking(self._ledger.shape, self._ledger.free(), request.resources)
            end = AttemptEnd(EndKind.NO_CAPACITY, message=message)
            self._news.add(Ended(uid, end, None, self._clock.now_ms()))
            return None
        owner, timeout_ms = self._owner, request.timeout_ms or 0
        record = AttemptRecord(uid, request.task_id, owner.cluster, owner.database_id, allotment, {}, timeout_ms)
        live = self._tracker.begin(record)
        live.launch = asyncio.get_running_loop().create_task(self._launch(live, request))
        return live

    async def _launch(self, live: Live, request: LaunchRequest) -> None:
        uid = request.attempt_uid
        try:
            answer = await self._ask_launcher(live, request)
        except (UnsafeBundle, NoAccount) as error:
            self._tracker.never_began(uid)
            await asyncio.to_thread(self._records.remove, uid)
            why = "its work directory cannot be filled: " if isinstance(error, UnsafeBundle) else ""
            end = AttemptEnd(EndKind.NOT_STARTED, 126, message=f"{why}{error}")
            self._news.add(Ended(uid, end, None, self._clock.now_ms()))
            return
        except (BackendUnavailable, OSError) as error:
            self._tracker.never_began(uid)
            await asyncio.to_thread(self._withdraw_secrets, uid)
            raise BackendUnavailable(f"{request.task_id} could not be launched: {error}") from error
        finally:
            live.launch = None
        if answer["known"] and live.started_ms == 0 and uid in self._tracker.live:
            await self._tracker.settle(uid)

    async def _ask_launcher(self, live: Live, request: LaunchRequest) -> Record:
        settings, uid = self._settings, request.attempt_uid
        account = await asyncio.to_thread(account_of, request.owner, settings.run_as)
        ports = await self._own_ports(live, request)
        folder = self._records.folder(uid) / files.WORK
        argv, marker = list(request.argv), ""
        if request.setup:
            token = secrets.token_hex(8)
            argv, marker = ["/bin/sh", str(folder.parent / SCRIPT), *argv], setup_marker(token).decode()
            await asyncio.to_thread(self._records.write_setup, uid, setup_script(request.setup, token))
        env = dict(request.env)
        if request.secret_files:
            env[_SECRETS_VARIABLE] = str(folder.parent / files.SECRETS)
        if request.files or request.bundle is not None or request.secret_files or account is not None:
            await asyncio.to_thread(self._fill, uid, request, account)
        devices = live.record.allotment.devices if settings.devices else None
        return await self._link.request(
            "launch",
            uid=uid,
            argv=argv,
            marker=marker,
            setup_timeout_ms=request.setup_timeout_ms or 0,
            env=task_environment(
                env, str(folder), settings.advertise_host, ports, devices, None if account is None else account.uid
            ),
            account=account,
            record=live.record.to_json(),
            secrets=list(request.secret_files),
            contain="auto" if settings.use_cgroup else "warden",
            output_bytes=settings.output_bytes,
            memory_bytes=request.resources.memory_bytes,
            timeout_ms=request.timeout_ms or 0,
            grace_s=settings.kill_grace_s,
        )

    def _fill(self, uid: str, request: LaunchRequest, account: Account | None) -> None:
        """Unless it was started before: what is in there is the task's by now."""
        if self._records.was_started(uid):
            return
        if account is not None:
            self._records.close_place(uid)
        if request.files or request.bundle is not None:
            workdir.fill(self._records.folder(uid) / files.WORK, request.files, request.bundle)
        self._records.write_secrets(uid, request.secret_files)
        if account is not None:
            self._records.hand_over(uid, account)

    def _withdraw_secrets(self, uid: str) -> None:
        """Unless it was started after all: nobody knows yet whether it is tried again."""
        if not self._records.was_started(uid):
            self._records.remove_secrets(uid)

    async def _own_ports(self, live: Live, request: LaunchRequest) -> Mapping[str, int]:
        ports = request.given_ports or (await self.allot_ports([request])).get(request.attempt_uid, {})
        live.record = dataclasses.replace(live.record, ports=ports)
        return ports

    async def _over(self, uid: str) -> None:
        """Returns when the attempt has ended."""
        while (live := self._tracker.live.get(uid)) is not None:
            await live.changed.wait()

    async def _until_output(self, uid: str, offset: int) -> None:
        while (live := self._tracker.live.get(uid)) is not None:
            changed = live.changed
            # Output of an orphan has no reader any more: nothing will come but its end.
            if uid not in self._tracker.orphans:
                with contextlib.suppress(BackendUnavailable):
                    answer = await self._link.request("watch", uid=uid, offset=offset)
                    if answer["alive"] and answer["end"] > offset:
                        return
            await changed.wait()
