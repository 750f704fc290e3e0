"""From an empty file to this code's schema, and what is refused on the way."""

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from iris_fed.errors import ConfigError
from iris_fed.store.check import check_database
from iris_fed.store.connection import connect_sqlite
from iris_fed.store.db import Tx
from iris_fed.store.meta import ensure_meta, read_meta
from iris_fed.store.migrate import Migration, load_migrations, migrate, split_statements
from iris_fed.store.opening import DATABASE_NAME, KEPT_BEFORE, open_database
from tests.store.samples import NOON


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Tx]:
    connection = connect_sqlite(tmp_path / DATABASE_NAME, NOON, set())
    yield connection
    connection.close()


def schema(tx: Tx) -> list[tuple[str, ...]]:
    return [tuple(row) for row in tx.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name")]


def tables(tx: Tx) -> set[str]:
    return {row["name"] for row in tx.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def applied(tx: Tx) -> list[tuple[int, str]]:
    return [tuple(row) for row in tx.execute("SELECT number, name FROM schema_migrations ORDER BY applied_ms, number")]


def test_migrations_are_applied_in_order_once(tx: Tx) -> None:
    migrations = load_migrations()
    done = migrate(tx, migrations, 5)
    assert done == [f"{m.number:04d}_{m.name}" for m in migrations]
    assert [number for number, _ in applied(tx)] == list(range(1, len(migrations) + 1))
    before = schema(tx)
    assert migrate(tx, migrations, 6) == []
    assert schema(tx) == before


def test_step_by_step_gives_the_same_schema_as_all_at_once(tx: Tx, tmp_path: Path) -> None:
    migrations = load_migrations()
    migrate(tx, migrations, 1)
    slow = connect_sqlite(tmp_path / "slow.db", NOON, set())
    for count in range(1, len(migrations) + 1):
        assert len(migrate(slow, migrations[:count], count)) == 1
    assert schema(slow) == schema(tx)
    slow.close()


def test_a_failing_migration_leaves_nothing_of_itself_and_all_of_those_before(tx: Tx) -> None:
    good = Migration(1, "good", "CREATE TABLE one (a);\n")
    bad = Migration(2, "bad", "CREATE TABLE two (a);\nINSERT INTO one VALUES (1);\nINSERT INTO nowhere VALUES (1);\n")
    later = Migration(3, "later", "CREATE TABLE three (a);\n")
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        migrate(tx, [good, bad, later], 1)
    assert not tx.in_transaction
    assert tables(tx) == {"schema_migrations", "one"}
    assert tx.execute("SELECT count(*) FROM one").fetchone()[0] == 0
    mended = replace(bad, sql="CREATE TABLE two (a);\n")
    assert migrate(tx, [good, mended, later], 2) == ["0002_bad", "0003_later"]


def test_a_database_of_a_newer_version_is_refused_untouched(tx: Tx) -> None:
    migrations = load_migrations()
    migrate(tx, [*migrations, Migration(99, "future", "CREATE TABLE future (a);\n")], 1)
    before = schema(tx)
    with pytest.raises(ConfigError, match=r"newer version \(migration 0099_future\): upgrade iris-fed"):
        migrate(tx, migrations, 2)
    assert schema(tx) == before


def test_an_edited_migration_is_refused(tx: Tx) -> None:
    migrations = load_migrations()
    migrate(tx, migrations, 1)
    edited = [replace(migrations[0], sql=migrations[0].sql + "-- a word\n"), *migrations[1:]]
    with pytest.raises(ConfigError, match="migration 0001_core differs"):
        migrate(tx, edited, 2)


def test_statements_are_split_with_their_triggers_whole() -> None:
    sql = (
        "-- about; this\nCREATE TABLE a (t TEXT DEFAULT 'x;\n;');\n"
        "CREATE TRIGGER w AFTER INSERT ON a BEGIN\n  DELETE FROM a;\n  SELECT 1;\nEND;\n-- the end\n"
    )
    first, second = split_statements(sql)
    assert first.endswith("'x;\n;');")
    assert second.startswith("CREATE TRIGGER w")
    assert second.endswith("END;")
    with pytest.raises(ConfigError, match="middle of a statement"):
        split_statements("CREATE TABLE a (b);\nCREATE TABLE")


async def test_a_database_keeps_its_id_and_its_clusters_name(tmp_path: Path) -> None:
    path = tmp_path / DATABASE_NAME
    db, meta = await open_database(path, "lab", "db-1", NOON)
    await db.close()
    assert (meta.name, meta.database_id, meta.ancestor_ids) == ("lab", "db-1", frozenset())
    db, meta = await open_database(path, "lab", "db-2", NOON)
    await db.close()
    assert meta.database_id == "db-1"
    with pytest.raises(ConfigError, match=r"cluster\.name is 'hub', but the database .* belongs to 'lab'"):
        await open_database(path, "hub", "db-3", NOON)


async def test_a_database_of_something_else_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / DATABASE_NAME
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE jobs (a)")
    other.close()
    with pytest.raises(ConfigError, match=r"cannot use the database .*table jobs already exists"):
        await open_database(path, "lab", "db-1", NOON)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        ("DROP TRIGGER changelog_job_updated", "changelog_job_updated is missing"),
        ("CREATE TRIGGER mine AFTER INSERT ON jobs BEGIN SELECT 1; END", "mine is not one of ours"),
        (
            "DROP TRIGGER changelog_fence_inserted; CREATE TRIGGER changelog_fence_inserted"
            " AFTER INSERT ON federated_jobs BEGIN SELECT 1; END",
            "changelog_fence_inserted was changed",
        ),
        (
            "ALTER TABLE attempts RENAME TO old; CREATE TABLE attempts AS SELECT * FROM old; DROP TABLE old",
            "changelog_attempt_inserted is missing",
        ),
    ],
)
async def test_a_database_whose_changelog_would_miss_something_is_refused(
    tmp_path: Path, harm: str, words: str
) -> None:
    path = tmp_path / DATABASE_NAME
    db, _ = await open_database(path, "lab", "db-1", NOON)
    await db.close()
    hand = sqlite3.connect(path)
    hand.executescript(f"PRAGMA legacy_alter_table=ON; {harm}")
    hand.close()
    with pytest.raises(ConfigError, match=words):
        await open_database(path, "lab", "db-1", NOON)
    assert any(words in problem for problem in check_database(path))


def of_older_code(path: Path, count: int) -> None:
    """A database as the code had it that knew `count` migrations, with a cluster's name."""
    with contextlib.closing(connect_sqlite(path, NOON, set())) as tx:
        migrate(tx, load_migrations()[:count], 1)
        ensure_meta(tx, "lab", "db-1")


async def upgraded(path: Path) -> None:
    db, _ = await open_database(path, "lab", "db-2", NOON)
    await db.close()


def copies(path: Path) -> list[str]:
    return sorted(one.name for one in path.parent.iterdir() if KEPT_BEFORE in one.name)


async def test_before_an_upgrade_the_database_is_kept_and_older_code_can_go_back_to_it(tmp_path: Path) -> None:
    path = tmp_path / DATABASE_NAME
    older = len(load_migrations()) - 1
    of_older_code(path, older)
    await upgraded(path)
    kept = path.with_name(f"{DATABASE_NAME}{KEPT_BEFORE}{older:04d}")
    assert copies(path) == [kept.name]
    assert kept.stat().st_mode & 0o777 == 0o600
    with contextlib.closing(connect_sqlite(kept, NOON, set())) as tx:
        assert len(applied(tx)) == older
        assert migrate(tx, load_migrations()[:older], 9) == []
        assert read_meta(tx).database_id == "db-1"
    before = kept.stat().st_mtime_ns
    await upgraded(path)
    assert kept.stat().st_mtime_ns == before, "no upgrade, no copy"


async def test_only_the_copy_of_the_latest_upgrade_is_kept(tmp_path: Path) -> None:
    path = tmp_path / DATABASE_NAME
    of_older_code(path, 3)
    (tmp_path / f"{DATABASE_NAME}{KEPT_BEFORE}0002").write_bytes(b"of long ago")
    (tmp_path / f".{DATABASE_NAME}{KEPT_BEFORE}0003.draft").write_bytes(b"of a start that was cut off")
    await upgraded(path)
    assert copies(path) == [f"{DATABASE_NAME}{KEPT_BEFORE}0003"]


async def test_a_new_database_is_not_kept_before_it_is_made(tmp_path: Path) -> None:
    await upgraded(tmp_path / DATABASE_NAME)
    assert copies(tmp_path / DATABASE_NAME) == []


async def test_without_room_for_the_copy_nothing_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / DATABASE_NAME
    of_older_code(path, 3)
    # A folder that is not empty stands where the copy would go: no error of permissions stops root.
    (tmp_path / f"{DATABASE_NAME}{KEPT_BEFORE}0003" / "full").mkdir(parents=True)
    with pytest.raises(ConfigError, match="no copy of it can be kept"):
        await upgraded(path)
    with contextlib.closing(connect_sqlite(path, NOON, set())) as tx:
        assert len(applied(tx)) == 3
