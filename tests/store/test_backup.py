"""A backup is whole or not there; put back, it begins a new life that doubts what it knew."""

import contextlib
import hashlib
import os
import resource
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iris_fed.errors import AlreadyExists, ConfigError, FailedPrecondition, InvalidArgument, NotFound, ResourceExhausted
from iris_fed.model.states import JobState, SentState
from iris_fed.store import backup as backup_module
from iris_fed.store.backup import backup_database
from iris_fed.store.bundles import BUNDLES_FOLDER, BundleStore, note_use, take_unused
from iris_fed.store.check import check_database
from iris_fed.store.connection import connect_sqlite
from iris_fed.store.db import Database, Tx
from iris_fed.store.lock import StateLock
from iris_fed.store.meta import ClusterMeta, RestoreMark, ensure_meta, read_meta, read_restore_mark
from iris_fed.store.migrate import load_migrations, migrate
from iris_fed.store.opening import DATABASE_NAME
from iris_fed.store.restore import jobs_to_settle, restore_database
from tests.store.samples import NOON, add_local, add_sent

TAKEN_MS, RESTORED_MS = 1_700_000_000_000, 1_700_000_600_123
BUSY_S = 5.0
"""How long our connections wait for each other elsewhere."""
WORKSPACE = bytes(range(256)) * 40
WORKSPACE_ID = hashlib.sha256(WORKSPACE).hexdigest()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir()
    return folder


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "backup.db"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Tx]:
    with contextlib.closing(connect_sqlite(path, NOON, set())) as tx:
        yield tx


def at_rest(state: Path, cluster: str = "lab") -> Path:
    """A database with one job, `/a/x`, that nobody has open."""
    with opened(state / DATABASE_NAME) as tx:
        migrate(tx, load_migrations(), 1)
        ensure_meta(tx, cluster, "db-1")
        add_local(tx, "/a/x")
    return state / DATABASE_NAME


def jobs(path: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as tx:
        return [row[0] for row in tx.execute("SELECT job_id FROM jobs ORDER BY uid")]


def size_of_log(path: Path) -> int:
    return path.with_name(path.name + "-wal").stat().st_size


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# --- taking ---


def test_a_backup_of_a_database_in_use_holds_what_was_committed_and_is_its_owners_alone(
    state: Path, copy: Path
) -> None:
    path = at_rest(state)
    with opened(path) as tx:
        add_local(tx, "/a/in-the-log")
        tx.execute("BEGIN IMMEDIATE")
        add_local(tx, "/a/uncommitted")
        made = backup_database(path, copy, TAKEN_MS)
        tx.execute("COMMIT")
    assert (made.cluster, made.unfinished_jobs, made.size) == ("lab", 2, copy.stat().st_size)
    assert jobs(copy) == ["/a/x", "/a/in-the-log"]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert check_database(copy) == []
    assert names(copy.parent) == {"state", "backup.db"}, "nothing lies beside it"


def test_writers_go_on_while_a_backup_is_taken(state: Path, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = at_rest(state)
    check = backup_module.refuse_damaged

    def while_it_is_checked(tx: Tx, draft: Path, what: str) -> None:
        with opened(path) as other:
            add_local(other, "/a/meanwhile")
        check(tx, draft, what)

    monkeypatch.setattr(backup_module, "refuse_damaged", while_it_is_checked)
    backup_database(path, copy, TAKEN_MS)
    assert jobs(copy) == ["/a/x"]
    assert jobs(path) == ["/a/x", "/a/meanwhile"]


async def test_emptying_the_log_does_not_wait_for_a_reader(db: Database) -> None:
    await db.write(add_local)
    with opened(db.path) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM jobs").fetchall()
        await db.write(lambda tx: add_local(tx, "/a/y"))
        began = time.monotonic()
        await db.checkpoint()
        assert time.monotonic() - began < BUSY_S / 2
        reader.execute("COMMIT")
    await db.checkpoint()
    assert size_of_log(db.path) == 0


def test_a_backup_holds_the_workspaces_that_unfinished_jobs_need_and_names_those_that_are_not_there(
    state: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_module, "PART_BYTES", 1_000)
    path = at_rest(state)
    folder = state / BUNDLES_FOLDER
    folder.mkdir()
    (folder / WORKSPACE_ID).write_bytes(WORKSPACE)
    (folder / ("f" * 64)).write_bytes(b"of a finished job")
    with opened(path) as tx:
        add_local(tx, "/a/needs", bundle_id=WORKSPACE_ID)
        add_local(tx, "/a/lacks", bundle_id="e" * 64)
        add_local(tx, "/a/done", bundle_id="f" * 64, state=JobState.SUCCEEDED, finished_ms=1_000)
    made = backup_database(path, copy, TAKEN_MS)
    assert (made.bundles, made.missing_bundles) == (1, ("e" * 64,))

    other = copy.parent / "other"
    done = restore_database(copy, other, "db-2", RESTORED_MS)
    assert (done.bundles, names(other / BUNDLES_FOLDER)) == (1, {WORKSPACE_ID})
    assert (other / BUNDLES_FOLDER / WORKSPACE_ID).read_bytes() == WORKSPACE
    with opened(other / DATABASE_NAME) as tx:
        assert tx.execute("SELECT 1 FROM sqlite_master WHERE name = 'backup_bundles'").fetchone() is None


def test_an_existing_file_is_replaced_only_when_told_so(state: Path, copy: Path) -> None:
    path = at_rest(state)
    copy.write_text("precious")
    with pytest.raises(AlreadyExists, match="--force"):
        backup_database(path, copy, TAKEN_MS)
    assert copy.read_text() == "precious"
    backup_database(path, copy, TAKEN_MS, force=True)
    assert jobs(copy) == ["/a/x"]


def test_what_cannot_be_a_backup_or_its_source_is_refused(state: Path, copy: Path, tmp_path: Path) -> None:
    path = at_rest(state)
    with pytest.raises(NotFound, match="no database"):
        backup_database(tmp_path / "none.db", copy, TAKEN_MS)
    with pytest.raises(NotFound, match="no directory"):
        backup_database(path, tmp_path / "none" / "b.db", TAKEN_MS)
    for own in (path, path.with_name("controller.db-wal"), path.with_name("new.db")):
        with pytest.raises(InvalidArgument, match="among the controller's own files"):
            backup_database(path, own, TAKEN_MS, force=True)
    alias = tmp_path / "alias.db"
    alias.symlink_to(path)
    with pytest.raises(InvalidArgument, match="in use"):
        backup_database(path, alias, TAKEN_MS, force=True)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for no_file in (tmp_path, pipe):
        with pytest.raises(InvalidArgument, match="no file"):
            backup_database(path, no_file, TAKEN_MS, force=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    sqlite3.connect(elsewhere / "other.db").execute("CREATE TABLE t (a)").connection.close()
    (elsewhere / "text.db").write_text("no database at all, but some text that is long enough to be looked at")
    for foreign in ("other.db", "text.db"):
        with pytest.raises(ConfigError, match="no database of a controller"):
            backup_database(elsewhere / foreign, copy, TAKEN_MS)
    assert not copy.exists()


def test_a_damaged_database_gives_no_backup_and_leaves_the_last_good_one(state: Path, copy: Path) -> None:
    path = at_rest(state)
    backup_database(path, copy, TAKEN_MS)
    good = copy.read_bytes()
    with path.open("r+b") as file:
        for page in range(3, path.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 64)
    with pytest.raises((FailedPrecondition, ConfigError)):
        backup_database(path, copy, TAKEN_MS, force=True)
    assert copy.read_bytes() == good
    assert names(copy.parent) == {"state", "backup.db"}


def test_a_full_disk_gives_no_backup_and_leaves_nothing(state: Path, copy: Path) -> None:
    path = at_rest(state)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_192, hard))
    try:
        with pytest.raises((ResourceExhausted, FailedPrecondition), match="cannot write the backup"):
            backup_database(path, copy, TAKEN_MS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(copy.parent) == {"state"}


# --- putting back ---


def restored(state: Path, copy: Path, fresh_id: str = "db-2", now_ms: int = RESTORED_MS) -> RestoreMark:
    restore_database(copy, state, fresh_id, now_ms)
    with opened(state / DATABASE_NAME) as tx:
        mark = read_restore_mark(tx)
    assert mark is not None
    return mark


def test_a_restored_database_is_a_new_life_that_knows_its_ancestors_and_when_it_was_copied(
    state: Path, copy: Path
) -> None:
    backup_database(at_rest(state), copy, TAKEN_MS)
    assert restored(state, copy) == RestoreMark(TAKEN_MS, RESTORED_MS, 1)
    with opened(state / DATABASE_NAME) as tx:
        meta = read_meta(tx)
    assert meta == ClusterMeta("lab", "db-2", frozenset({"db-1"}))
    assert check_database(state / DATABASE_NAME) == []
    assert stat.S_IMODE((state / DATABASE_NAME).stat().st_mode) == 0o600


def test_what_is_submitted_after_a_restore_is_not_given_up_for_it(state: Path, copy: Path) -> None:
    path = at_rest(state)
    with opened(path) as tx:
        add_sent(tx, "/a/elsewhere")
        add_local(tx, "/a/y")
    backup_database(path, copy, TAKEN_MS)
    mark = restored(state, copy)
    with opened(path) as tx:
        add_local(tx, "/a/later")
        assert jobs_to_settle(tx, mark) == [3, 1]


def test_a_database_that_is_replaced_becomes_an_ancestor_with_its_own(state: Path, copy: Path) -> None:
    backup_database(at_rest(state), copy, TAKEN_MS)
    restored(state, copy, "db-2")
    restored(state, copy, "db-3", RESTORED_MS + 1)
    with opened(state / DATABASE_NAME) as tx:
        assert read_meta(tx).ancestor_ids == {"db-1", "db-2"}


def crashed(state: Path) -> Path:
    """A directory as a crash leaves it, with `/a/later` only in the log."""
    folder = state.parent / "crashed"
    folder.mkdir()
    with opened(at_rest(state)) as tx:
        add_local(tx, "/a/later")
        for left in state.glob(f"{DATABASE_NAME}*"):
            (folder / left.name).write_bytes(left.read_bytes())
    assert size_of_log(folder / DATABASE_NAME) > 0
    return folder


def test_the_former_database_is_kept_with_what_only_its_log_held(state: Path, copy: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    backup_database(at_rest(tmp_path / "other"), copy, TAKEN_MS)
    folder = crashed(state)
    done = restore_database(copy, folder, "db-2", RESTORED_MS)
    assert done.kept == folder / "controller.db.before-restore-20231114T222320.123Z"
    assert done.kept_readable
    assert jobs(done.kept) == ["/a/x", "/a/later"]
    assert jobs(folder / DATABASE_NAME) == ["/a/x"]


def test_a_log_without_its_database_is_not_taken_for_the_new_ones(state: Path, copy: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    backup_database(at_rest(tmp_path / "other"), copy, TAKEN_MS)
    folder = crashed(state)
    (folder / DATABASE_NAME).unlink()
    restore_database(copy, folder, "db-2", RESTORED_MS)
    assert jobs(folder / DATABASE_NAME) == ["/a/x"]
    assert [path for path in folder.iterdir() if path.name.endswith("Z-wal")]


def test_a_former_database_that_cannot_be_read_is_kept_as_it_is(state: Path, copy: Path) -> None:
    path = at_rest(state)
    backup_database(path, copy, TAKEN_MS)
    path.write_bytes(b"rubbish" * 1_000)
    done = restore_database(copy, state, "db-2", RESTORED_MS)
    assert done.kept is not None
    assert not done.kept_readable
    assert done.kept.read_bytes() == b"rubbish" * 1_000
    assert jobs(path) == ["/a/x"]


def test_a_restore_forgets_how_far_peers_were_read_and_doubts_what_was_not_sent(state: Path, copy: Path) -> None:
    path = at_rest(state)
    with opened(path) as tx:
        add_sent(tx, "/a/waits", nonce="s1", next_try_ms=5_000)
        add_sent(tx, "/a/there", nonce="s2", state=SentState.HANDED_OFF, sent=True, missing_since_ms=3)
        tx.execute("INSERT INTO federation_peers (peer, cursor, full_set_done) VALUES ('moon', '7.ab', 1)")
    backup_database(path, copy, TAKEN_MS)
    restored(state, copy)
    with opened(path) as tx:
        (peer,) = tx.execute("SELECT cursor, full_set_done FROM federation_peers").fetchall()
        handles = tx.execute(
            "SELECT sent, unanswered, next_try_ms, missing_since_ms FROM federated_jobs ORDER BY nonce"
        ).fetchall()
    assert tuple(peer) == ("", 0)
    assert [tuple(handle) for handle in handles] == [(1, 1, 0, None), (1, 0, 0, None)]


def test_a_running_controller_is_not_restored_over(state: Path, copy: Path) -> None:
    path = at_rest(state)
    backup_database(path, copy, TAKEN_MS)
    before = path.read_bytes()
    lock = StateLock(state)
    with pytest.raises(ConfigError, match="in use by another controller"):
        restore_database(copy, state, "db-2", RESTORED_MS)
    lock.release()
    assert path.read_bytes() == before


def test_a_database_that_another_process_has_open_is_not_restored_over(
    state: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_module, "PATIENCE_S", 0.0)
    path = at_rest(state)
    backup_database(path, copy, TAKEN_MS)
    with opened(path) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM jobs").fetchall()
        with pytest.raises(FailedPrecondition, match="another process has"):
            restore_database(copy, state, "db-2", RESTORED_MS)
    assert not list(state.glob("*before-restore*"))


def test_a_backup_of_another_cluster_is_refused_and_nothing_changes(state: Path, copy: Path, tmp_path: Path) -> None:
    moon = tmp_path / "moon"
    moon.mkdir()
    backup_database(at_rest(moon, "moon"), copy, TAKEN_MS)
    at_rest(state)
    for folder, cluster in ((state, ""), (state, "lab"), (tmp_path / "empty", "lab")):
        with pytest.raises(ConfigError, match="belongs to cluster 'moon', but this is 'lab'"):
            restore_database(copy, folder, "db-2", RESTORED_MS, cluster)
    with opened(state / DATABASE_NAME) as tx:
        assert read_meta(tx).database_id == "db-1"
    assert not list(state.glob("*restor*"))
    assert not list(state.glob(".*"))


def test_a_backup_by_newer_code_is_refused(state: Path, copy: Path) -> None:
    backup_database(at_rest(state), copy, TAKEN_MS)
    with contextlib.closing(sqlite3.connect(copy)) as tx:
        tx.execute("INSERT INTO schema_migrations VALUES (9999, 'later', 'x', 1)")
        tx.commit()
    with pytest.raises(ConfigError, match="newer version"):
        restore_database(copy, state, "db-2", RESTORED_MS)


def test_a_damaged_backup_is_refused(state: Path, copy: Path) -> None:
    path = at_rest(state)
    backup_database(path, copy, TAKEN_MS)
    with copy.open("r+b") as file:
        for page in range(3, copy.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 64)
    with pytest.raises((FailedPrecondition, ConfigError), match=r"damaged|malformed|no database of a controller"):
        restore_database(copy, state, "db-2", RESTORED_MS)
    assert jobs(path) == ["/a/x"]


@pytest.mark.parametrize("missing", [1, 100, 4_095, 4_096, 9_000])
def test_a_backup_that_was_cut_off_is_refused(state: Path, copy: Path, missing: int) -> None:
    path = at_rest(state)
    backup_database(path, copy, TAKEN_MS)
    os.truncate(copy, copy.stat().st_size - missing)
    with pytest.raises(FailedPrecondition, match=r"damaged|malformed"):
        restore_database(copy, state, "db-2", RESTORED_MS)
    assert jobs(path) == ["/a/x"]


def test_a_backup_whose_text_is_none_is_refused_in_words(state: Path, copy: Path) -> None:
    backup_database(at_rest(state), copy, TAKEN_MS)
    with contextlib.closing(sqlite3.connect(copy)) as tx:
        tx.execute("UPDATE cluster_meta SET value = CAST(x'ff41' AS TEXT) WHERE key = 'database_id'")
        tx.commit()
    with pytest.raises((FailedPrecondition, ConfigError)):
        restore_database(copy, state, "db-2", RESTORED_MS)


def test_a_workspace_that_is_not_what_it_was_is_refused(state: Path, copy: Path) -> None:
    path = at_rest(state)
    (state / BUNDLES_FOLDER).mkdir()
    (state / BUNDLES_FOLDER / WORKSPACE_ID).write_bytes(b"something else")
    with opened(path) as tx:
        add_local(tx, "/a/needs", bundle_id=WORKSPACE_ID)
    backup_database(path, copy, TAKEN_MS)
    other = copy.parent / "other"
    with pytest.raises(FailedPrecondition, match="is not what it was"):
        restore_database(copy, other, "db-2", RESTORED_MS)
    assert not (other / DATABASE_NAME).exists()


def test_a_copy_made_by_hand_counts_as_of_its_last_change(state: Path, copy: Path) -> None:
    copy.write_bytes((at_rest(state)).read_bytes())
    os.utime(copy, (1_600_000_000, 1_600_000_000))
    assert (restored(state, copy)).taken_ms == 1_600_000_000_000


# --- what a crash leaves ---


async def test_half_written_bundles_go_at_the_start_and_unheard_of_ones_in_their_time(
    db: Database, tmp_path: Path
) -> None:
    folder = tmp_path / BUNDLES_FOLDER
    folder.mkdir()
    (folder / f".{WORKSPACE_ID}.17.ab").write_bytes(b"half")
    (folder / WORKSPACE_ID).write_bytes(WORKSPACE)
    (folder / ("a" * 64)).write_bytes(b"in use")
    await db.write(lambda tx: note_use(tx, "a" * 64, 6, 9_000))
    await BundleStore(folder, 1_000).repair(db, 5_000)
    assert names(folder) == {WORKSPACE_ID, "a" * 64}
    assert await db.write(lambda tx: take_unused(tx, 5_000, frozenset(), 10)) == []
    assert await db.write(lambda tx: take_unused(tx, 5_001, frozenset(), 10)) == [WORKSPACE_ID]
