"""The controller's side of the shared directory (see `layout`). Blocking; called from threads."""

import contextlib
import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from iris_fed.backends.base import Building, Ended, LaunchRequest, Running
from iris_fed.backends.posix import files, handover, workdir
from iris_fed.backends.posix.ends import parse_end, unseen_end
from iris_fed.backends.posix.files import Record
from iris_fed.backends.posix.removal import remove
from iris_fed.backends.posix.setup import SCRIPT
from iris_fed.backends.posix.spawn import Account
from iris_fed.backends.slurm import layout, left
from iris_fed.model.resources import Usage

_PACKAGE = Path(__file__).resolve().parents[2]
_POSIX = (
    *("__init__", "attempt", "attempts", "cgroup", "children", "containment", "environment", "files"),
    *("logformat", "loop", "output", "ports", "procfs", "spawn", "warden"),
)
KEEPER_FILES = (
    "__init__.py",
    "backends/__init__.py",
    *(f"backends/posix/{name}.py" for name in _POSIX),
    "backends/slurm/__init__.py",
    "backends/slurm/layout.py",
    "backends/slurm/node.py",
)
"""What runs on the nodes: standard library only."""
_MAX_WORDS_BYTES = 4_096
_DAMAGED = (KeyError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True, slots=True)
class Kept:
    """The controller's own record of an attempt. `job` names its Slurm job: the uid of the first of its `members`
    many; `account` is whom it runs as, '' = as the controller."""

    uid: str
    task_id: str
    cluster: str
    database_id: str
    job: str
    members: int = 1
    cpu_millicores: int = 0
    memory_bytes: int = 0
    chips: int = 0
    variant: str = ""
    account: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What an attempt's place tells. `runs` None = it does not run so far."""

    began: bool
    runs: Building | Running | None
    result: Ended | None
    told: bool
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Contents:
    """What is put into an attempt's place before it begins; `gang`: into the first one's, the uids of all."""

    request: LaunchRequest
    launch: Record
    setup: str = ""
    gang: Sequence[str] = ()


class Shared:
    def __init__(self, folder: Path, open_to_others: bool) -> None:
        self.folder = folder.absolute()
        self._way = 0o711 if open_to_others else 0o700
        self._news_mode = 0o1733 if open_to_others else 0o700

    def prepare(self) -> str:
        """Make it ready; the path of the program for the nodes. Raises OSError."""
        for name, mode in (
            (".", self._way),
            (files.ATTEMPTS, self._way),
            (layout.RECORDS, 0o700),
            (layout.NEWS, self._news_mode),
        ):
            place = self.folder / name
            place.mkdir(mode=mode, parents=True, exist_ok=True)
            place.chmod(mode)
        return str(self._install_keeper())

    def place(self, uid: str) -> Path:
        return self.folder / files.ATTEMPTS / uid

    def known(self) -> tuple[set[str], list[Kept]]:
        """Uids of all that were laid out and not forgotten, and records of those that have not ended. Gangs of
        which not all were laid out were never submitted: they are taken back. Raises OSError."""
        kept = {one.uid: one for name in os.listdir(self.folder / layout.RECORDS) if (one := self.kept(name))}
        ended = {uid for uid in kept if os.path.exists(self._record(uid) / layout.END)}
        present = Counter(one.job for one in kept.values())
        short = {one.job for one in kept.values() if present[one.job] < one.members}
        begun = {uid for uid, one in kept.items() if one.job in short and self._has_begun(uid)}
        whole = {kept[uid].job for uid in ended | begun}
        for uid in [uid for uid, one in kept.items() if one.job in short - whole]:
            del kept[uid]
            self.remove(uid)
        return set(kept), [one for uid, one in kept.items() if uid not in ended]

    def kept(self, uid: str) -> Kept | None:
        record = files.read_record(str(self._record(uid) / files.ATTEMPT))
        with contextlib.suppress(TypeError):
            return None if record is None else Kept(**record)
        return None

    def lay_out(self, kept: Kept, contents: Contents, account: Account | None) -> None:
        """All that it needs, and last the record: what has one may have begun. What an earlier try left there may
        belong to the account by now, and goes first. Raises OSError, UnsafeBundle."""
        place, request = self.place(kept.uid), contents.request
        remove(place)
        place.mkdir(mode=0o700)
        workdir.fill(place / files.WORK, request.files, request.bundle)
        if request.secret_files:
            handover.write_secrets(place, request.secret_files)
        if contents.setup:
            layout.create(str(place / SCRIPT), contents.setup)
        files.write_record(str(place), layout.LAUNCH, contents.launch, durable=False)
        if contents.gang:
            files.write_record(str(place), layout.GANG, {"uids": list(contents.gang)}, durable=False)
        if account is not None:
            handed = (files.WORK, files.SECRETS, SCRIPT, layout.LAUNCH, layout.GANG)
            handover.hand_over([place / name for name in handed], account)
            os.chown(place, account.uid, account.gid, follow_symlinks=False)
        record = self._record(kept.uid)
        record.mkdir(mode=0o700, exist_ok=True)
        files.write_record(str(record), files.ATTEMPT, asdict(kept), durable=True)

    def look(self, uid: str) -> Seen:
        """What its own task may have written over is taken for absent. Raises OSError."""
        folder = str(self.place(uid))

        def read(name: str) -> Record | None:
            with contextlib.suppress(PermissionError):
                return files.read_record(os.path.join(folder, name), files.MAX_TASKS_BYTES)
            return None

        told = os.path.lexists(os.path.join(folder, layout.TOLD))
        record, result = read(files.EXIT), None
        with contextlib.suppress(*_DAMAGED):
            result, told = (None, told) if record is None else left.result(uid, record, told)
        runs = usage = None
        with contextlib.suppress(*_DAMAGED):
            runs = left.runs(uid, read(layout.PLACE), read(files.PROCESS))
        with contextlib.suppress(*_DAMAGED):
            usage = left.usage(read(layout.USAGE))
        return Seen(self._has_begun(uid), runs, result, told, usage)

    def cancel(self, uid: str) -> None:
        """Who has not begun does not begin any more. Raises OSError."""
        if self.place(uid).is_dir():
            layout.create(str(self.place(uid) / layout.CANCELLED))

    def is_cancelled(self, uid: str) -> bool:
        return os.path.lexists(self.place(uid) / layout.CANCELLED)

    def job_words(self, job: str) -> str:
        """The last line of what the job itself printed, beside its attempts."""
        try:
            with open(self.place(job) / layout.SLURM_OUT, "rb", opener=files.open_no_link) as stream:
                stream.seek(max(0, os.fstat(stream.fileno()).st_size - _MAX_WORDS_BYTES))
                lines = stream.read(_MAX_WORDS_BYTES).decode("utf-8", "replace").split("\n")
        except (OSError, TypeError):
            # What does not seek, or has nothing to give at the moment, was put there by the task.
            return ""
        return next((left.text(line.strip(), 300) for line in reversed(lines) if line.strip()), "")

    def end(self, uid: str) -> Ended | None:
        record = files.read_record(str(self._record(uid) / layout.END))
        return None if record is None else parse_end(uid, record)

    def write_end(self, ended: Ended) -> None:
        """Settled. Nothing of it runs, so its secrets go. Raises OSError."""
        place, uid = self.place(ended.attempt_uid), ended.attempt_uid
        files.remove_secrets(str(place))
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            (place / layout.LAUNCH).unlink()
        record = {**unseen_end(ended.end, ended.started_ms, ended.finished_ms), "usage": asdict(ended.usage)}
        # One that could not be laid out has none so far.
        self._record(uid).mkdir(mode=0o700, exist_ok=True)
        files.write_record(str(self._record(uid)), layout.END, record, durable=True)

    def remove(self, uid: str) -> None:
        """The record goes last, so that a half-removed attempt is still known. Raises OSError."""
        remove(self.place(uid))
        self.take_back(uid)

    def take_back(self, uid: str) -> None:
        """It was not laid out, whatever lies in its place."""
        shutil.rmtree(self._record(uid), ignore_errors=True)

    def take_news(self) -> set[str]:
        """Uids of which something has changed since the last call. Raises OSError."""
        uids = {name for name in os.listdir(self.folder / layout.NEWS) if files.is_uid(name)}
        for uid in uids:
            # Before anybody looks, so that what changes afterwards is told again.
            with contextlib.suppress(OSError):
                os.unlink(self.folder / layout.NEWS / uid)
        return uids

    def _has_begun(self, uid: str) -> bool:
        return os.path.lexists(self.place(uid) / layout.BEGUN)

    def _record(self, uid: str) -> Path:
        return self.folder / layout.RECORDS / uid

    def _install_keeper(self) -> Path:
        contents = {name: (_PACKAGE / name).read_bytes() for name in KEEPER_FILES}
        version = hashlib.sha256(b"\0".join(contents.values())).hexdigest()[:16]
        target = self.folder / layout.KEEPER / version
        if not target.exists():
            draft = target.with_name(f".{version}.{os.getpid()}")
            shutil.rmtree(draft, ignore_errors=True)
            for name, content in contents.items():
                path = draft / "iris_fed" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            _open_to_all([draft.parent, draft, *draft.rglob("*")])
            with contextlib.suppress(OSError):
                draft.rename(target)
        return target / "iris_fed/backends/slurm/node.py"


def _open_to_all(paths: Iterable[Path]) -> None:
    for path in paths:
        path.chmod(0o755 if path.is_dir() else 0o644)
