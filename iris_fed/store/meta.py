"""Which cluster this database belongs to, and which life of it this is."""

import json
from dataclasses import asdict, dataclass

from iris_fed.errors import ConfigError
from iris_fed.store.db import Tx

_NAME, _DATABASE_ID, _ANCESTORS, _TAKEN, _RESTORED = "name", "database_id", "ancestor_ids", "backup_ms", "restored"


@dataclass(frozen=True, slots=True)
class ClusterMeta:
    """`ancestor_ids` are the database ids this one was restored from."""

    name: str
    database_id: str
    ancestor_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class RestoreMark:
    """This database was put back at `restored_ms` from a backup of `taken_ms` (epoch milliseconds), and has not
    met yet what runs. `last_job_uid`: later jobs were submitted after the restore."""

    taken_ms: int
    restored_ms: int
    last_job_uid: int


def ensure_meta(tx: Tx, cluster: str, fresh_id: str) -> ClusterMeta:
    """Names a new database; refuses one that belongs to another cluster name (ConfigError)."""
    tx.execute("INSERT INTO cluster_meta VALUES (?, ?) ON CONFLICT DO NOTHING", (_NAME, cluster))
    tx.execute("INSERT INTO cluster_meta VALUES (?, ?) ON CONFLICT DO NOTHING", (_DATABASE_ID, fresh_id))
    meta = read_meta(tx)
    if meta.name != cluster:
        raise ConfigError(
            f"cluster.name is {cluster!r}, but the database in the state directory belongs to {meta.name!r}: "
            "jobs and peers know it under that name, so it cannot change; use another state_dir"
        )
    return meta


def read_meta(tx: Tx) -> ClusterMeta:
    values = {row["key"]: row["value"] for row in tx.execute("SELECT key, value FROM cluster_meta")}
    ancestors = frozenset(filter(None, values.get(_ANCESTORS, "").split(",")))
    return ClusterMeta(values[_NAME], values[_DATABASE_ID], ancestors)


def mark_taken(tx: Tx, now_ms: int) -> None:
    """This is a copy, taken now."""
    _put(tx, _TAKEN, str(now_ms))


def taken_at(tx: Tx) -> int | None:
    """When this copy was taken, epoch ms; None = it is no backup of ours."""
    row = _get(tx, _TAKEN)
    return None if row is None else int(row)


def mark_restored(tx: Tx, fresh_id: str, ancestor_ids: frozenset[str], mark: RestoreMark) -> None:
    """A copy begins a life of its own, as `fresh_id`."""
    _put(tx, _DATABASE_ID, fresh_id)
    _put(tx, _ANCESTORS, ",".join(sorted(ancestor_ids)))
    _put(tx, _RESTORED, json.dumps(asdict(mark)))
    tx.execute("DELETE FROM cluster_meta WHERE key = ?", (_TAKEN,))


def read_restore_mark(tx: Tx) -> RestoreMark | None:
    row = _get(tx, _RESTORED)
    return None if row is None else RestoreMark(**json.loads(row))


def clear_restore_mark(tx: Tx) -> None:
    tx.execute("DELETE FROM cluster_meta WHERE key = ?", (_RESTORED,))


def _get(tx: Tx, key: str) -> str | None:
    row = tx.execute("SELECT value FROM cluster_meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row["value"])


def _put(tx: Tx, key: str, value: str) -> None:
    tx.execute(
        "INSERT INTO cluster_meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value)
    )


def prove_writable(tx: Tx) -> None:
    """Writes what is there already: a transaction that changes nothing would pass on a disk that takes nothing."""
    tx.execute("UPDATE cluster_meta SET value = value WHERE key = 'name'")
