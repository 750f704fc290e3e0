"""Files that jobs bring along: zip archives named by the SHA-256 of their bytes.

The bytes are on disk, durably, before a transaction names them, so that an acknowledged job never
lacks them.
"""

import asyncio
import hashlib
import io
import json
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import anyio

from iris_fed.errors import InvalidArgument, ResourceExhausted
from iris_fed.model.files import split_path
from iris_fed.store.db import Database, Tx

BUNDLES_FOLDER = "bundles"
"""Below the state directory."""
MAX_MEMBERS = 100_000
MAX_UNPACKED_BYTES = 1024**3
MAX_NAME_BYTES = 255
LATELY_S = 3_600.0
"""Far longer than any submit takes."""
_READ_BYTES = 1024 * 1024
_DIRECTORY_ENTRY = b"PK\x01\x02"
_DRIVE = re.compile(r"[A-Za-z]:")
_ID = re.compile(r"[0-9a-f]{64}")


class BundleStore:
    """`folder` is made at the first bundle. `max_bytes` bounds one bundle."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._put_at: dict[str, float] = {}

    async def repair(self, db: Database, now_ms: int) -> None:
        """Clear up what a crash or a restore left, before anything is put here: half-written files go
        now, and bundles that the database has not heard of in their time."""
        here = []
        for path in self._folder.glob("*"):
            if path.name.startswith("."):
                path.unlink(missing_ok=True)
            elif _ID.fullmatch(path.name):
                here.append((path.name, path.stat().st_size))
        if here:
            await db.write(lambda tx: _note_unheard(tx, here, now_ms))

    async def put(self, data: bytes) -> str:
        """Returns its id. Raises InvalidArgument for what is no safe archive or too large,
        ResourceExhausted when the disk is full."""
        if len(data) > self._max_bytes:
            raise InvalidArgument(f"has {len(data)} bytes; at most {self._max_bytes} are accepted", "bundle_blob")
        bundle_id = await asyncio.to_thread(self._put, data)
        self._put_at[bundle_id] = anyio.current_time()
        return bundle_id

    def lately_put(self) -> frozenset[str]:
        """What a job that is about to be written may name: not to be removed, though no job names it yet."""
        since = anyio.current_time() - LATELY_S
        self._put_at = {bundle_id: at for bundle_id, at in self._put_at.items() if at >= since}
        return frozenset(self._put_at)

    def path(self, bundle_id: str) -> Path:
        """Where it lies if it is here. Raises InvalidArgument for what is no id."""
        if not _ID.fullmatch(bundle_id):
            raise InvalidArgument("is the SHA-256 of the bundle in lower-case hex", "bundle_id")
        return self._folder / bundle_id

    async def read(self, bundle_id: str) -> bytes:
        """Raises FileNotFoundError."""
        return await asyncio.to_thread(self.path(bundle_id).read_bytes)

    async def remove(self, bundle_id: str) -> None:
        await asyncio.to_thread(self.path(bundle_id).unlink, missing_ok=True)

    def _put(self, data: bytes) -> str:
        bundle_id = hashlib.sha256(data).hexdigest()
        target = self.path(bundle_id)
        if target.exists():
            return bundle_id
        check_archive(data)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._folder / f".{bundle_id}.{os.getpid()}.{id(data):x}"
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, target)
            sync_folder(self._folder)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise ResourceExhausted(f"the bundle cannot be stored ({error.strerror}); nothing was changed") from error
        return bundle_id


def check_archive(data: bytes) -> None:
    """Raises InvalidArgument unless it is a zip archive of plain files below its root, of bounded size,
    that unpacks to what it says."""
    if data.count(_DIRECTORY_ENTRY) > MAX_MEMBERS:
        # Before it is read: a million entries would take the memory.
        raise _unsafe(f"holds more than {MAX_MEMBERS} files")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            _check_members(members)
            for member in members:
                _check_content(archive, member)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, zlib.error) as error:
        raise _unsafe(f"is no readable zip archive: {error}") from None


def _check_members(members: Sequence[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_MEMBERS:
        raise _unsafe(f"holds more than {MAX_MEMBERS} files")
    if sum(member.file_size for member in members) > MAX_UNPACKED_BYTES:
        raise _unsafe(f"unpacks to more than {MAX_UNPACKED_BYTES} bytes")
    for member in members:
        name = member.filename[:80]
        split_path(member.filename.removesuffix("/"), "bundle_blob")
        if "\\" in member.filename or _DRIVE.match(member.filename):
            raise _unsafe(f"holds a path of another system: {name!r}")
        if any(len(part.encode()) > MAX_NAME_BYTES for part in member.filename.split("/")):
            raise _unsafe(f"holds a name of more than {MAX_NAME_BYTES} bytes: {name!r}")
        if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise _unsafe(f"holds a link or device: {name!r}")
        if member.flag_bits & 1:
            raise _unsafe(f"is encrypted: {name!r}")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _unsafe(f"is compressed by another method than deflate: {name!r}")
    _check_no_file_is_a_folder(members)


def _check_no_file_is_a_folder(members: Sequence[zipfile.ZipInfo]) -> None:
    files = {member.filename for member in members if not member.is_dir()}
    for member in members:
        parts = member.filename.removesuffix("/").split("/")
        above = ["/".join(parts[:end]) for end in range(1, len(parts) + member.is_dir())]
        if clash := next((path for path in above if path in files), None):
            raise _unsafe(f"holds {clash[:80]!r} as a file and as a folder")


def _check_content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """A header may lie about the size; the checksum is compared at the end."""
    with archive.open(member) as source:
        left = member.file_size
        while chunk := source.read(_READ_BYTES):
            left -= len(chunk)
    if left:
        raise _unsafe(f"does not hold what it says: {member.filename[:80]!r}")


def _unsafe(words: str) -> InvalidArgument:
    return InvalidArgument(words, "bundle_blob")


def note_use(tx: Tx, bundle_id: str, size: int, now_ms: int) -> None:
    """In the transaction that writes a job with this bundle."""
    tx.execute(
        "INSERT INTO bundles (bundle_id, size, used_ms) VALUES (?, ?, ?)"
        " ON CONFLICT (bundle_id) DO UPDATE SET used_ms = excluded.used_ms",
        (bundle_id, size, now_ms),
    )


def has_used_bundle(tx: Tx, bundle_id: str, requester: str, user: str) -> bool:
    """Whether a job of this owner that is remembered here came with the bundle."""
    row = tx.execute(
        "SELECT 1 FROM jobs WHERE bundle_id = ? AND bundle_id <> '' AND requester = ? AND user = ? LIMIT 1",
        (bundle_id, requester, user),
    ).fetchone()
    return row is not None


def _note_unheard(tx: Tx, here: Sequence[tuple[str, int]], now_ms: int) -> None:
    tx.executemany(
        "INSERT INTO bundles (bundle_id, size, used_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        [(bundle_id, size, now_ms) for bundle_id, size in here],
    )


def take_unused(tx: Tx, before_ms: int, keep: frozenset[str], limit: int) -> list[str]:
    """Forget bundles that no job names and that were last used before then, but for those to `keep`;
    returns their ids."""
    rows = tx.execute(
        "DELETE FROM bundles WHERE bundle_id IN (SELECT bundle_id FROM bundles WHERE used_ms < ?"
        " AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.bundle_id = bundles.bundle_id AND jobs.bundle_id <> '')"
        " AND bundle_id NOT IN (SELECT value FROM json_each(?)) ORDER BY used_ms LIMIT ?) RETURNING bundle_id",
        (before_ms, json.dumps(sorted(keep)), limit),
    )
    return [row["bundle_id"] for row in rows.fetchall()]


def sync_folder(folder: Path) -> None:
    """Make durable which names the folder holds."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
