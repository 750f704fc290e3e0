"""Files that jobs bring along: kept under the hash of their bytes, and refused when they are not safe."""

import asyncio
import hashlib
import io
import stat
import struct
import zipfile
from pathlib import Path

import pytest

from iris_fed.errors import InvalidArgument, ResourceExhausted
from iris_fed.store import bundles
from iris_fed.store.bundles import BundleStore, check_archive, note_use, take_unused
from iris_fed.store.connection import connect_sqlite
from iris_fed.store.migrate import load_migrations, migrate
from tests.store.samples import NOON, add_local

Member = tuple[str | zipfile.ZipInfo, bytes]
LIMIT = 1_000_000


def archive(*members: Member, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", method) as bundle:
        for name, content in members:
            bundle.writestr(name, content)
    return raw.getvalue()


def with_mode(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def patched(data: bytes, offset: int, number: int, size: str = "<I") -> bytes:
    """With another number at `offset` of the first entry of the central directory."""
    at = data.index(b"PK\x01\x02") + offset
    return data[:at] + struct.pack(size, number) + data[at + struct.calcsize(size) :]


@pytest.fixture
def store(tmp_path: Path) -> BundleStore:
    return BundleStore(tmp_path / "bundles", LIMIT)


GOOD = archive(("a/b.py", b"print()"), ("empty/", b""), (with_mode("run", stat.S_IFREG | 0o755), b"#!/bin/sh"))


async def test_a_bundle_is_kept_under_the_hash_of_its_bytes_for_its_owner_only(
    store: BundleStore, tmp_path: Path
) -> None:
    bundle_id = await store.put(GOOD)
    assert bundle_id == hashlib.sha256(GOOD).hexdigest()
    assert await store.read(bundle_id) == GOOD
    assert stat.S_IMODE((tmp_path / "bundles").stat().st_mode) == 0o700
    assert stat.S_IMODE(store.path(bundle_id).stat().st_mode) == 0o600


async def test_the_same_bytes_are_kept_once_however_often_and_however_many_send_them(
    store: BundleStore, tmp_path: Path
) -> None:
    copies = [bytes(bytearray(GOOD)) for _ in range(8)]
    ids = await asyncio.gather(*(store.put(copy) for copy in copies))
    assert len(set(ids)) == 1
    assert [path.name for path in (tmp_path / "bundles").iterdir()] == [ids[0]]
    written = store.path(ids[0]).stat().st_mtime_ns
    await store.put(GOOD)
    assert store.path(ids[0]).stat().st_mtime_ns == written


def test_nothing_is_made_on_disk_before_the_first_bundle_or_for_a_refused_one(
    store: BundleStore, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgument):
        asyncio.run(store.put(b"no zip"))
    assert list(tmp_path.iterdir()) == []


async def test_a_bundle_over_the_limit_is_refused_with_both_numbers(store: BundleStore) -> None:
    with pytest.raises(InvalidArgument, match=rf"^bundle_blob: has {LIMIT + 1} bytes; at most {LIMIT} are accepted"):
        await store.put(bytes(LIMIT + 1))
    filler = archive((zipfile.ZipInfo("a"), bytes(LIMIT - 200)), method=zipfile.ZIP_STORED)
    assert len(filler) <= LIMIT
    await store.put(filler)


async def test_a_removed_bundle_is_gone_and_may_be_removed_again(store: BundleStore) -> None:
    bundle_id = await store.put(GOOD)
    await store.remove(bundle_id)
    await store.remove(bundle_id)
    with pytest.raises(FileNotFoundError):
        await store.read(bundle_id)


async def test_a_disk_that_takes_nothing_is_told_and_leaves_no_draft(
    store: BundleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(ResourceExhausted, match="No space left on device"):
        await store.put(GOOD)
    assert list((tmp_path / "bundles").iterdir()) == []


@pytest.mark.parametrize("bundle_id", ["", "x", "../" + "a" * 61, "A" * 64, "a" * 63, "a" * 65, "/etc/passwd"])
def test_what_is_no_hash_names_no_file(store: BundleStore, bundle_id: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^bundle_id: is the SHA-256"):
        store.path(bundle_id)


def test_a_plain_archive_is_safe() -> None:
    check_archive(GOOD)
    check_archive(archive())
    check_archive(archive(("a.txt", b"x" * 10_000), ("ünïcode/名", b"x"), ("cc: d/no drive", b"x"), ("..a/b..", b"x")))


@pytest.mark.parametrize(
    ("member", "words"),
    [
        ("../evil", "no path below"),
        ("a/../../evil", "no path below"),
        ("a/..", "no path below"),
        ("/etc/passwd", "no path below"),
        ("//host/share", "no path below"),
        ("./a", "no path below"),
        ("a//b", "no path below"),
        ("a//", "no path below"),
        ("..\\evil", "of another system"),
        ("a\\b", "of another system"),
        ("C:\\evil", "of another system"),
        ("C:evil", "of another system"),
        ("C:/evil", "of another system"),
        ("n" * 256, "name of more than 255 bytes"),
        ("ü" * 128, "name of more than 255 bytes"),
        (with_mode("link", stat.S_IFLNK | 0o777), "link or device: 'link'"),
        (with_mode("null", stat.S_IFCHR | 0o666), "link or device"),
        (with_mode("disk", stat.S_IFBLK | 0o666), "link or device"),
        (with_mode("pipe", stat.S_IFIFO | 0o666), "link or device"),
        (with_mode("sock", stat.S_IFSOCK | 0o666), "link or device"),
    ],
)
def test_a_member_that_leads_elsewhere_is_refused(member: str | zipfile.ZipInfo, words: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"^bundle_blob: .*{words}"):
        check_archive(archive(("fine", b"x"), (member, b"/etc/passwd")))


@pytest.mark.parametrize("members", [("a", "a/b"), ("a/b/c", "a/b"), ("d/", "d/x/y", "d/x")])
def test_a_name_that_is_a_file_and_a_folder_is_refused(members: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument, match="as a file and as a folder"):
        check_archive(archive(*((name, b"") for name in members)))


def test_an_encrypted_member_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="is encrypted: 'a'"):
        check_archive(patched(archive(("a", b"secret")), 8, 1, "<H"))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_the_common_compression_is_taken(method: int) -> None:
    with pytest.raises(InvalidArgument, match="another method than deflate"):
        check_archive(archive(("a", b"x" * 1_000), method=method))


def test_a_bomb_is_refused_by_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "MAX_UNPACKED_BYTES", 1_000_000)
    check_archive(archive(("a", bytes(500_000)), ("b", bytes(500_000))))
    with pytest.raises(InvalidArgument, match="unpacks to more than 1000000 bytes"):
        check_archive(archive(("a", bytes(500_000)), ("b", bytes(500_001))))


@pytest.mark.parametrize("claimed", [0, 10, 999_999, 1_000_001])
def test_a_bomb_that_lies_about_its_size_is_refused(claimed: int) -> None:
    with pytest.raises(InvalidArgument, match=r"no readable zip archive|does not hold what it says"):
        check_archive(patched(archive(("a", bytes(1_000_000))), 24, claimed))


def test_too_many_files_are_refused_before_their_list_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "MAX_MEMBERS", 10)
    check_archive(archive(*((f"f{number}", b"") for number in range(10))))
    too_many = archive(*((f"f{number}", b"") for number in range(11)))

    def explode(*_: object) -> None:
        raise AssertionError("the list was read")

    monkeypatch.setattr("zipfile.ZipFile", explode)
    with pytest.raises(InvalidArgument, match="more than 10 files"):
        check_archive(too_many)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"#!/bin/sh",
        GOOD[:-30],
        GOOD[30:],
        GOOD.replace(b"PK\x03\x04", b"PK\x00\x00"),
        patched(GOOD, 16, 12345),
        patched(GOOD, 42, 2**31),
    ],
)
def test_what_is_damaged_or_no_archive_at_all_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument, match=r"^bundle_blob: is no readable zip archive"):
        check_archive(data)


def test_a_bundle_goes_when_no_job_names_it_and_nobody_has_just_sent_it(tmp_path: Path) -> None:
    tx = connect_sqlite(tmp_path / "c.db", NOON, set())
    migrate(tx, load_migrations(), NOON.now_ms())
    try:
        for bundle_id in ("named", "free", "fresh", "kept"):
            note_use(tx, bundle_id, 10, 5_000 if bundle_id == "fresh" else 1_000)
        add_local(tx, bundle_id="named")
        assert take_unused(tx, 2_000, frozenset({"kept"}), 10) == ["free"]
        left = [row["bundle_id"] for row in tx.execute("SELECT bundle_id FROM bundles ORDER BY bundle_id")]
        assert left == ["fresh", "kept", "named"]
        note_use(tx, "kept", 10, 9_000)
        assert take_unused(tx, 6_000, frozenset(), 10) == ["fresh"]
    finally:
        tx.close()
