"""The launcher's files read as the backend's values. Blocking; called from threads."""

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from iris_fed.backends.base import Ended
from iris_fed.backends.posix import files, handover
from iris_fed.backends.posix.capacity import Allotment
from iris_fed.backends.posix.ends import parse_end
from iris_fed.backends.posix.files import Record
from iris_fed.backends.posix.removal import empty
from iris_fed.backends.posix.setup import SCRIPT
from iris_fed.backends.posix.spawn import Account

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Process:
    """How to find an attempt's processes without its launcher. `boot` says in which life of the
    machine the numbers mean anything; `guard_pid` is its warden's, 0 without one."""

    boot: str
    pid: int
    start: int
    cgroup: str = ""
    guard_pid: int = 0
    guard_start: int = 0


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """The content of `attempt.json` and `process.json`. `process` None = it was about to start. Times in epoch ms."""

    uid: str
    task_id: str
    cluster: str
    database_id: str
    allotment: Allotment
    ports: Mapping[str, int]
    timeout_ms: int
    boot: str = ""
    cgroup: str = ""
    process: Process | None = None
    started_ms: int = 0
    building: bool = False

    def to_json(self) -> Record:
        return {
            "uid": self.uid,
            "task_id": self.task_id,
            "cluster": self.cluster,
            "database_id": self.database_id,
            "cpu_millicores": self.allotment.cpu_millicores,
            "memory_bytes": self.allotment.memory_bytes,
            "variant": self.allotment.variant,
            "devices": list(self.allotment.devices),
            "ports": dict(self.ports),
            "timeout_ms": self.timeout_ms,
        }


def parse_attempt(record: Record, process: Record | None) -> AttemptRecord:
    """Raises KeyError for what no launcher wrote."""
    boot = str(record["boot"])
    return AttemptRecord(
        uid=record["uid"],
        task_id=record["task_id"],
        cluster=record["cluster"],
        database_id=record["database_id"],
        allotment=Allotment(
            record["cpu_millicores"], record["memory_bytes"], record["variant"], tuple(record["devices"])
        ),
        ports=record["ports"],
        timeout_ms=record["timeout_ms"],
        boot=boot,
        cgroup=record["cgroup"],
        process=None if process is None else _parse_process(process, boot),
        started_ms=0 if process is None else process["started_ms"],
        building=process is not None and process.get("building", False),
    )


class Records:
    """The attempts below one state directory."""

    def __init__(self, state_dir: Path, *, shows_the_way: bool = False) -> None:
        """`shows_the_way`: tasks run under other accounts, which pass through without seeing what lies there."""
        self.state_dir = state_dir
        self._mode = 0o711 if shows_the_way else 0o700

    def folder(self, uid: str) -> Path:
        return self.state_dir / files.ATTEMPTS / uid

    def prepare(self) -> None:
        attempts = self.state_dir / files.ATTEMPTS
        attempts.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.state_dir.chmod(self._mode)
        attempts.chmod(self._mode)

    def started(self) -> tuple[set[str], list[AttemptRecord]]:
        """Uids of all that were ever started here and not forgotten; records of those without an end.

        Of the others no secret stays.
        """
        known: set[str] = set()
        unfinished: list[AttemptRecord] = []
        for entry in os.scandir(self.state_dir / files.ATTEMPTS):
            was_started = os.path.exists(os.path.join(entry.path, files.ATTEMPT))
            if was_started:
                known.add(entry.name)
            if was_started and not os.path.exists(os.path.join(entry.path, files.EXIT)):
                unfinished.append(self.attempt(entry.name) or _damaged(entry.name))
            else:
                # Left by a controller that died before the start, or a launcher after the end.
                self.remove_secrets(entry.name)
        return known, unfinished

    def attempt(self, uid: str) -> AttemptRecord | None:
        """None without a readable record: it was never started, or the disk lost it."""
        folder = self.folder(uid)
        record = files.read_record(str(folder / files.ATTEMPT))
        with contextlib.suppress(KeyError):
            if record is not None:
                return parse_attempt(record, files.read_record(str(folder / files.PROCESS)))
        return None

    def end(self, uid: str) -> Ended | None:
        record = files.read_record(str(self.folder(uid) / files.EXIT))
        return None if record is None else parse_end(uid, record)

    def was_started(self, uid: str) -> bool:
        return (self.folder(uid) / files.ATTEMPT).exists()

    def write_setup(self, uid: str, script: str) -> None:
        """Raises OSError."""
        folder = self.folder(uid)
        folder.mkdir(mode=0o700, exist_ok=True)
        if not self.was_started(uid):
            (folder / SCRIPT).write_text(script)

    def write_secrets(self, uid: str, secrets: Mapping[str, str]) -> None:
        """Readable by this user alone. Raises OSError."""
        handover.write_secrets(self.folder(uid), secrets)

    def close_place(self, uid: str) -> None:
        """Of an attempt that has not begun: what lies there from an earlier try goes. Raises OSError."""
        handover.close_place(self.folder(uid))

    def hand_over(self, uid: str, account: Account) -> None:
        """What the attempt needs becomes the account's. Raises OSError."""
        folder = self.folder(uid)
        handover.hand_over((folder / files.WORK, folder / files.SECRETS, folder / SCRIPT), account)
        folder.chmod(0o711)

    def remove_secrets(self, uid: str) -> None:
        """Of an attempt of which nothing runs."""
        try:
            files.remove_secrets(str(self.folder(uid)))
        except OSError as error:
            log.error("secret files could not be removed", attempt_uid=uid, error=str(error))

    def write_end(self, uid: str, record: Record) -> Ended:
        """Only where no launcher is left that could. Raises OSError."""
        self.remove_secrets(uid)
        files.write_record(str(self.folder(uid)), files.EXIT, record, durable=True)
        return parse_end(uid, record)

    def remove(self, uid: str) -> None:
        """The record goes last, so that a half-removed attempt is still known. Raises OSError."""
        folder = self.folder(uid)
        if not folder.exists():
            return
        empty(folder, spared=files.ATTEMPT)
        shutil.rmtree(folder, ignore_errors=True)


def _damaged(uid: str) -> AttemptRecord:
    """A power cut took what was written last: of another life of the machine, so no process is left."""
    return AttemptRecord(uid, "", "", "", Allotment(), {}, 0)


def _parse_process(process: Record, boot: str) -> Process:
    return Process(
        boot,
        process["pid"],
        process["start"],
        process.get("cgroup", ""),
        process.get("warden", 0),
        process.get("warden_start", 0),
    )
