"""A cluster: its configuration, its engine, and one controller after the other on its state directory."""

import asyncio
import contextlib
import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from iris_fed.backends.base import Backend
from iris_fed.backends.local.settings import LocalSettings
from iris_fed.config.sections import LocalBackendSettings, PeerSettings
from iris_fed.config.settings import Settings
from iris_fed.model.ports import PeerClient
from iris_fed.rpc.credentials import Credentials
from iris_fed.rpc.peer_client import ConnectPeer
from iris_fed.server.compose import Parts
from iris_fed.store.backup import backup_database
from iris_fed.store.lock import LOCK_FILE
from iris_fed.store.opening import DATABASE_NAME
from iris_fed.store.restore import restore_database
from tests.simulation.engine import PlannedEngine, SeveredBackend
from tests.simulation.kinds import kinds_of
from tests.simulation.life import Life
from tests.simulation.network import Network, Wire
from tests.simulation.world import SeededEntropy, WallClock, World

MAX_SKEW_MS = 12_000
"""Two clusters stay within what federation tokens allow (30 s)."""
CALL_TIMEOUT_S = 5.0
HEARTBEAT_S = 30.0
LONG_POLL_S = 45.0
HANDOFF_EXPIRY_S = 3_600.0
FEDERATION: dict[str, Any] = {
    "heartbeat_interval_s": HEARTBEAT_S,
    "heartbeat_timeout_s": 3.0,
    "first_heartbeat_wait_s": 2.0,
    "call_timeout_s": CALL_TIMEOUT_S,
    "poll_interval_s": 30.0,
    "long_poll_ms": int(LONG_POLL_S * 1000),
    "handoff_expiry_s": HANDOFF_EXPIRY_S,
    "lost_after_s": 60.0,
    "max_backoff_s": 20.0,
    "outbox_concurrency": 4,
}
PLAIN_POLL_S = 4.0
"""Of a peer without our extensions: so often that an answer falls between the end of a root and of its children."""
DATABASE_ID = "SELECT value FROM cluster_meta WHERE key = 'database_id'"
JOBS_DAYS = 2.0
RETENTION: dict[str, Any] = {"jobs_days": JOBS_DAYS, "outputs_days": 0.5, "interval_s": 60.0, "min_free": 0}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a cluster is: whom it hands jobs to, whose it takes, and its one machine."""

    name: str
    machine: LocalSettings
    peers: tuple[str, ...] = ()
    trusts: tuple[str, ...] = ()

    @property
    def inert(self) -> bool:
        return not self.peers and not self.trusts


@dataclass
class Cluster:
    """`lineage` numbers its databases: 0 is the first, and it is another one after a wipe or a restore, the last of
    which was at `database_lost_ms`. `gone_ids`: databases that will never come back. `tainted`: an older file was put
    back by hand, so that what it does again is nobody's fault."""

    world: World
    plan: Plan
    directory: Path
    network: Network
    on_ready: Callable[[Life], None]
    lineage: int = 0
    database_lost_ms: int = 0
    swapped_ms: tuple[int, int | None] = (0, 0)
    gone_ids: set[str] = field(default_factory=set)
    tainted: bool = False
    life: Life | None = None
    ending: list[Life] = field(default_factory=list)
    _lives: int = 0
    _lineages: int = 0
    _aside: tuple[Path, int] | None = None

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True)
        skew_ms = self.world.rng.randrange(-MAX_SKEW_MS, MAX_SKEW_MS)
        self.clock = WallClock(self.world, skew_ms)
        self._entropy = SeededEntropy(f"{self.world.seed} {self.name}")
        self.engine = PlannedEngine(self.world, self.name, self.clock, self.plan.machine)
        self._settings = Settings(**self._values())

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def url(self) -> str:
        return url_of(self.name)

    @property
    def state_dir(self) -> Path:
        return self.directory / f"state{self._lives}"

    @property
    def running(self) -> Life | None:
        """The life that serves."""
        return self.life if self.life is not None and self.life.serves else None

    @property
    def down(self) -> bool:
        return self.life is None

    def start(self) -> None:
        assert self.life is None
        self.engine.unavailable = False
        self.world.note("start", self.name)
        settings = self._settings.model_copy(update={"state_dir": self.state_dir})
        self.life = Life(self.name, settings, self.url, self._parts, self.on_ready, self._ended)

    def crash(self) -> None:
        """What was committed at this moment is all that the next life finds."""
        life = self.life
        assert life is not None
        self.world.note("crash", self.name)
        former = self.state_dir
        life.crash()
        self.life = None
        self.ending.append(life)
        self._lives += 1
        if former.exists():
            shutil.copytree(former, self.state_dir, ignore=shutil.ignore_patterns(LOCK_FILE, f"{DATABASE_NAME}-shm"))

    def stop(self) -> None:
        if self.running is not None:
            self.world.note("stop", self.name)
        if self.life is not None:
            self.life.stop()

    def wipe(self) -> None:
        """Its state is gone; its configuration and its engine are not."""
        assert self.life is None
        self.world.note("wipe", self.name)
        self._another_database()
        self._lives += 1

    def swap_out(self) -> None:
        """By mistake it is started on an empty directory; the right one lies aside."""
        assert self.life is None
        if self._aside is None:
            self.world.note("swap out", self.name)
            self._aside = (self.state_dir, self.lineage)
            self.swapped_ms = (self.world.now_ms(), None)
            self._another_database(gone=False)
            self._lives += 1

    def swap_in(self) -> None:
        """The right directory again, as it was."""
        assert self.life is None
        if self._aside is not None:
            self.world.note("swap in", self.name)
            self.swapped_ms = (self.swapped_ms[0], self.world.now_ms())
            self._another_database()
            self._lives += 1
            (right, self.lineage), self._aside = self._aside, None
            if right.exists():
                right.rename(self.state_dir)

    @property
    def swapped(self) -> bool:
        return self._aside is not None

    def back_up(self) -> Path:
        """A backup of the database as it is now, made while its controller runs."""
        target = self.directory / "backup.db"
        backup_database(self.state_dir / DATABASE_NAME, target, self.clock.now_ms(), force=True)
        return target

    def restore(self, backup: Path) -> None:
        """As an operator does it with `db restore`."""
        assert self.life is None
        self.world.note("restore", self.name)
        self._another_database()
        restore_database(backup, self.state_dir, self._entropy.token(), self.clock.now_ms(), self.name)

    def save_copy(self) -> Path:
        """A bare copy of the database file, for `put_back`."""
        target = self.directory / "kept.db"
        target.unlink(missing_ok=True)
        source = self.state_dir / DATABASE_NAME
        with (
            contextlib.closing(sqlite3.connect(source)) as reading,
            contextlib.closing(sqlite3.connect(target)) as kept,
        ):
            reading.backup(kept)
        return target

    def put_back(self, copy: Path) -> None:
        """An operator copies an older database file into place, by hand."""
        assert self.life is None
        self.world.note("put back", self.name)
        self.state_dir.mkdir(mode=0o700, exist_ok=True)
        for left in self.state_dir.glob(DATABASE_NAME + "*"):
            left.unlink()
        shutil.copyfile(copy, self.state_dir / DATABASE_NAME)
        self._another_database(gone=False)
        self.tainted = True

    def _another_database(self, *, gone: bool = True) -> None:
        if gone and (self.state_dir / DATABASE_NAME).exists():
            with contextlib.closing(sqlite3.connect(self.state_dir / DATABASE_NAME)) as former:
                self.gone_ids |= {
                    row[0] for row in former.execute("SELECT value FROM cluster_meta WHERE key = 'database_id'")
                }
        self._lineages += 1
        self.lineage = self._lineages
        self.database_lost_ms = self.world.now_ms()

    def _ended(self, life: Life, error: BaseException | None) -> None:
        if life in self.ending:
            self.ending.remove(life)
            shutil.rmtree(life.state_dir, ignore_errors=True)
            return
        life.sever()
        self.life = None
        if error is not None:
            self.world.fail(f"the controller of {self.name} ended by itself: {error!r}")
        self.world.note("ended", self.name)

    def _parts(self, life: Life) -> Parts:
        def connect(peer: PeerSettings, token: Callable[[], str]) -> PeerClient:
            wire = Wire(self.network, self.name, peer.name, life)
            return ConnectPeer(peer.address, Credentials(token), CALL_TIMEOUT_S, transport=wire)

        def backend(settings: LocalBackendSettings) -> Backend:
            hold = SeveredBackend(self.clock, self.engine)
            life.backends.append(hold)
            return hold

        return Parts(self.clock, self._entropy, connect, backend, inline_database=True)

    def _values(self) -> Mapping[str, Any]:
        polls = {"poll_interval_s": PLAIN_POLL_S} if kinds_of(self.world.seed).plain else {}
        auth: dict[str, Any] = {
            "federation_peers": {
                name: {"public_keys": [public_key(name)], "allowed_submitters": ["*"]} for name in self.plan.trusts
            }
        }
        if self.plan.peers:
            auth |= {"signing_key": self._secret("signing.pem", private_key(self.name))}
            auth |= {"nonce_key": self._secret("nonce.key", f"the nonce key of {self.name}")}
        return {
            "cluster": {"name": self.name},
            "backends": [LocalBackendSettings(id=self.plan.machine.backend_id)],
            "peers": [PeerSettings(name=peer, address=url_of(peer)) for peer in self.plan.peers],
            "auth": auth,
            "federation": FEDERATION | polls,
            "retention": RETENTION,
        }

    def _secret(self, name: str, text: str) -> str:
        path = self.directory / name
        path.write_text(text)
        return f"file:{path}"


def url_of(name: str) -> str:
    return f"http://127.0.0.1:{10_000 + sum(name.encode())}"


def private_key(name: str) -> str:
    key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def public_key(name: str) -> str:
    key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


async def settled(clusters: list[Cluster], within_s: float) -> list[str]:
    """The names of clusters of which code that should be over still runs after a while."""
    tasks = [life.task for cluster in clusters for life in cluster.ending]
    if tasks:
        await asyncio.wait(tasks, timeout=within_s)
    return [cluster.name for cluster in clusters if cluster.ending]
