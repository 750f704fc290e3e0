"""Real controllers in one process: own state directory, keys and database each, engines that do what a test says."""

import asyncio
import contextlib
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from pyqwest import Transport

from iris_fed.auth.federation_tokens import FederationSigner
from iris_fed.auth.keys import private_key_from_pem
from iris_fed.backends.base import Backend
from iris_fed.backends.local.settings import LocalSettings
from iris_fed.backends.scripted import ScriptedBackend, ScriptedEngine
from iris_fed.client import Client, command_job
from iris_fed.client.request import equals
from iris_fed.clock import SystemClock, SystemEntropy
from iris_fed.config.sections import LocalBackendSettings, PeerSettings
from iris_fed.config.settings import Settings
from iris_fed.errors import NotFound
from iris_fed.model.ports import PeerClient
from iris_fed.rpc.connect_client import Channel
from iris_fed.rpc.credentials import Credentials
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller as Wired
from iris_fed.rpc.gen.job import job_pb2
from iris_fed.rpc.peer_client import ConnectPeer
from iris_fed.server.compose import Controller, Parts, running_controller
from iris_fed.store.opening import DATABASE_NAME
from tests.federation.wire import Served, Wire

T = TypeVar("T")
WITHIN_S = 10.0
POLL_S = 0.004
FEDERATION: dict[str, Any] = {
    "heartbeat_interval_s": 0.3,
    "heartbeat_timeout_s": 0.25,
    "first_heartbeat_wait_s": 1.0,
    "call_timeout_s": 0.5,
    # No poll interval may be what brings news.
    "poll_interval_s": 1000.0,
    "long_poll_ms": 20_000,
    "max_backoff_s": 0.5,
}
JobState = job_pb2.JobState
PENDING, RUNNING = job_pb2.JOB_STATE_PENDING, job_pb2.JOB_STATE_RUNNING
SUCCEEDED, FAILED = job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_FAILED
KILLED, WORKER_FAILED = job_pb2.JOB_STATE_KILLED, job_pb2.JOB_STATE_WORKER_FAILED


async def until(found: Callable[[], Awaitable[T]], within_s: float = WITHIN_S) -> T:
    """What `found` gives once it is true; an AssertionError when that takes too long."""
    result: T | None = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while True:
                if result := await found():
                    return result
                await asyncio.sleep(POLL_S)
    raise AssertionError(f"not within {within_s:g} s: {found}; last seen: {result!r}")


@dataclass
class Cluster:
    """One controller. `peers` are whom it hands jobs to, `trusts` whose jobs it takes (requester: submitters).
    `auth` holds further settings of that section."""

    world: "World"
    name: str
    directory: Path
    engines: dict[str, ScriptedEngine]
    peers: tuple[str, ...] = ()
    trusts: Mapping[str, list[str]] = field(default_factory=dict)
    federation: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    retention: Mapping[str, Any] = field(default_factory=dict)
    auth: Mapping[str, Any] = field(default_factory=dict)
    controller: Controller | None = None
    served: Served | None = None
    _task: asyncio.Task[None] | None = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return self.world.url(self.name)

    @property
    def state_dir(self) -> Path:
        return self.directory / "state"

    @property
    def engine(self) -> ScriptedEngine:
        return next(iter(self.engines.values()))

    @property
    def running(self) -> Controller:
        assert self.controller is not None
        return self.controller

    @property
    def client(self) -> Client:
        """An administrator's."""
        return Client(self.url, token=self.running.admin_token, transport=self.transport())

    def transport(self) -> Wire:
        """A way in that nothing breaks, for whoever is no cluster."""
        return Wire(lambda: self.served)

    async def start(self) -> None:
        started = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._serve(started), name=f"controller {self.name}")
        await started

    async def stop(self) -> None:
        """As on SIGTERM: held answers are given, the rest is cut off."""
        if self.controller is None or self.served is None:
            return
        self.controller.answer_held()
        await self.served.end(grace_s=0.1)
        await self._leave()

    async def crash(self) -> None:
        """As by kill -9: what was committed at this moment is all that is left."""
        assert self.served is not None
        for wire in self.world.wires_from(self.name):
            wire.cut()
        for engine in self.engines.values():
            engine.unavailable, engine.listener = True, None
        kept = self.directory / "kept.db"
        kept.unlink(missing_ok=True)
        source, target = sqlite3.connect(self.state_dir / DATABASE_NAME), sqlite3.connect(kept)
        with contextlib.closing(source), contextlib.closing(target):
            source.backup(target)
        await self.served.end()
        await self._leave()
        for left in self.state_dir.glob(DATABASE_NAME + "*"):
            left.unlink()
        kept.rename(self.state_dir / DATABASE_NAME)
        for engine in self.engines.values():
            engine.unavailable = False
        for wire in self.world.wires_from(self.name):
            wire.mend()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def wipe(self) -> None:
        """Its state is gone; the configuration and the engine are not."""
        assert self.controller is None
        shutil.rmtree(self.state_dir)

    async def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        return await self.running.db.read(lambda tx: [dict(row) for row in tx.execute(sql, values)])

    async def execute(self, sql: str, *values: Any) -> None:
        await self.running.db.write(lambda tx: tx.execute(sql, values).rowcount)

    def edit_at_rest(self, sql: str) -> None:
        """Change the database of a controller that does not run."""
        assert self.controller is None
        with contextlib.closing(sqlite3.connect(self.state_dir / DATABASE_NAME)) as database:
            database.execute(sql)
            database.commit()

    def token_for(self, peer: str) -> str:
        """A federation token of this cluster's own."""
        key = private_key_from_pem(self.world.key(self.name), "test")
        return FederationSigner(key, self.name, SystemClock(), SystemEntropy()).mint(peer)

    async def _serve(self, started: "asyncio.Future[None]") -> None:
        try:
            async with running_controller(self._settings(), self.url, self._parts()) as controller:
                self.controller, self.served = controller, Served(controller.asgi, self.world.failures)
                started.set_result(None)
                await self._stop.wait()
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
                return
            raise
        finally:
            self.controller = self.served = None

    async def _leave(self) -> None:
        self._stop.set()
        assert self._task is not None
        await self._task

    def _settings(self) -> Settings:
        auth: dict[str, Any] = {
            "federation_peers": {
                name: {"public_keys": [self.world.public_key(name)], "allowed_submitters": submitters}
                for name, submitters in self.trusts.items()
            }
        }
        if self.peers:
            auth |= {"signing_key": self._secret("signing.pem", self.world.key(self.name))}
            auth |= {"nonce_key": self._secret("nonce.key", f"the nonce key of {self.name}")}
        values: dict[str, Any] = {
            "cluster": {"name": self.name},
            "state_dir": self.state_dir,
            "backends": [LocalBackendSettings(id=name) for name in self.engines],
            "peers": [PeerSettings(name=peer, address=self.world.url(peer)) for peer in self.peers],
            "auth": auth | dict(self.auth),
            "federation": FEDERATION | dict(self.federation),
            "limits": dict(self.limits),
            "retention": dict(self.retention),
        }
        return Settings(**values)

    def _secret(self, name: str, text: str) -> str:
        path = self.directory / name
        path.write_text(text)
        return f"file:{path}"

    def _parts(self) -> Parts:
        call_timeout_s = float((FEDERATION | dict(self.federation))["call_timeout_s"])

        def connect(peer: PeerSettings, token: Callable[[], str]) -> PeerClient:
            transport: Transport = self.world.wire(self.name, peer.name)
            return ConnectPeer(peer.address, Credentials(token), call_timeout_s, transport=transport)

        def backend(settings: LocalBackendSettings) -> Backend:
            return ScriptedBackend(SystemClock(), self.engines[settings.id])

        return Parts(connect_peer=connect, make_backend=backend)


class World:
    """All clusters of a test, and the wires between them.

    `failures` is what applications raised instead of answering. `expected_errors` are the events
    that a test may leave in the log as errors.
    """

    def __init__(self, directory: Path, keys: dict[str, str]) -> None:
        self._directory = directory
        self._keys = keys
        self._wires: dict[tuple[str, str], Wire] = {}
        self.clusters: dict[str, Cluster] = {}
        self.failures: list[Exception] = []
        self.expected_errors: set[str] = set()

    async def add(self, name: str, *, start: bool = True, h100: int = 0, **settings: Any) -> Cluster:
        """A cluster with one backend: CPUs only, or `h100` chips."""
        directory = self._directory / name
        directory.mkdir()
        machine = LocalSettings(
            backend_id="gpu" if h100 else "cpu",
            name=f"{name}-node",
            cpu_millicores=8_000,
            memory_bytes=32 * 1024**3,
            devices={"h100": h100} if h100 else {},
        )
        engines = {machine.backend_id: ScriptedEngine(SystemClock(), machine)}
        cluster = self.clusters[name] = Cluster(self, name, directory, engines, **settings)
        if start:
            await cluster.start()
        return cluster

    async def pair(self, *, hub: Mapping[str, Any] | None = None, lab: Mapping[str, Any] | None = None) -> "Pair":
        """`lab` (8 x h100) and `hub` (CPUs), which hands jobs to it; both in contact."""
        peer = await self.add("lab", h100=8, **({"trusts": {"hub": ["*"]}} | dict(lab or {})))
        parent = await self.add("hub", **({"peers": ("lab",)} | dict(hub or {})))
        await in_contact(parent)
        return Pair(parent, peer, self.wire("hub", "lab"))

    def wire(self, source: str, target: str) -> Wire:
        key = (source, target)
        if key not in self._wires:
            self._wires[key] = Wire(lambda: self.clusters[target].served if target in self.clusters else None)
        return self._wires[key]

    def use_wire(self, source: str, target: str, wire: Wire) -> None:
        """Instead of the one that would be made."""
        self._wires[source, target] = wire

    def wires_from(self, source: str) -> list[Wire]:
        return [wire for (start, _), wire in self._wires.items() if start == source]

    @property
    def connections(self) -> int:
        """How many ways from one cluster to another were ever opened."""
        return len(self._wires)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{10_000 + sum(name.encode()) % 50_000}"

    def key(self, name: str) -> str:
        if name not in self._keys:
            fresh = Ed25519PrivateKey.generate()
            self._keys[name] = fresh.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        return self._keys[name]

    def public_key(self, name: str) -> str:
        public = private_key_from_pem(self.key(name), "test").public_key()
        return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    async def close(self) -> None:
        for cluster in self.clusters.values():
            await cluster.stop()


@dataclass(frozen=True)
class Pair:
    """`wire` leads from the hub to the lab."""

    hub: Cluster
    lab: Cluster
    wire: Wire


def gpu_job(name: str = "train", *, count: int = 1, replicas: int = 1, **fields: Any) -> Wired.LaunchJobRequest:
    request = command_job(["python", "train.py"], name=name, gpu=("h100", count), replicas=replicas)
    request.MergeFrom(Wired.LaunchJobRequest(**fields))
    return request


def cpu_job(name: str = "prepare", **fields: Any) -> Wired.LaunchJobRequest:
    request = command_job(["true"], name=name, cpu_millicores=100)
    request.MergeFrom(Wired.LaunchJobRequest(**fields))
    return request


def pinned(request: Wired.LaunchJobRequest, **pins: str) -> Wired.LaunchJobRequest:
    """With `cluster=` or `backend=` constraints."""
    request.constraints.extend(equals(key, value) for key, value in pins.items())
    return request


def handoff(name: str, requester: str, nonce: str = "a.b") -> Wired.LaunchJobRequest:
    """As a cluster hands a job over, raw."""
    request = gpu_job(name)
    request.federation.CopyFrom(
        Wired.FederationHandoff(
            requester_id=requester, owner_principal="alice", submitting_user="alice@x.org", handoff_nonce=nonce
        )
    )
    return request


async def in_contact(cluster: Cluster, *, reachable: bool = True) -> None:
    """Every peer was heard of, and its first full set was read."""

    async def heard() -> bool:
        links = [cluster.running.federation.link(peer) for peer in cluster.peers]
        return all(link.reachable == reachable and (link.state.full_set_done or not reachable) for link in links)

    await until(heard)


async def job_of(cluster: Cluster, job_id: str) -> job_pb2.JobStatus:
    return (await cluster.client.job(job_id)).job


async def seen(
    cluster: Cluster, job_id: str, *states: JobState, reason: str = "", status: str = ""
) -> job_pb2.JobStatus:
    """The job once it is in one of `states` (any if none) and its reason or peer status is as said."""

    async def found() -> job_pb2.JobStatus | None:
        try:
            job = await job_of(cluster, job_id)
        except NotFound:
            return None
        peer_status = job_pb2.PeerStatus.Name(job.peer_status).removeprefix("PEER_STATUS_")
        fits = (not states or job.state in states) and reason in job.pending_reason and status in ("", peer_status)
        return job if fits else None

    try:
        result = await until(found)
    except AssertionError as error:
        raise AssertionError(f"{job_id} on {cluster.name} is {await job_of(cluster, job_id)}") from error
    assert result is not None
    return result


async def started(cluster: Cluster, count: int = 1) -> list[str]:
    """The uids of the attempts that the cluster's engine was told to start, once there are `count`."""

    async def enough() -> list[str] | None:
        launched = cluster.engine.launched
        return [request.attempt_uid for request in launched] if len(launched) >= count else None

    found = await until(enough)
    assert found is not None
    assert len(found) == count
    return found


def as_peer(source: Cluster, target: Cluster, *, claimed_target: str = "") -> Channel:
    """Raw calls to `target` with a federation token of `source`."""
    shown = Credentials(lambda: source.token_for(claimed_target or target.name))
    return Channel(target.url, credentials=shown, transport=target.transport())
