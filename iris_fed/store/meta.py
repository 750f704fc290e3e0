"""Which cluster this database belongs to, and which life of it this is."""

from dataclasses import dataclass

from iris_fed.errors import ConfigError
from iris_fed.store.db import Tx


@dataclass(frozen=True, slots=True)
class ClusterMeta:
    """`ancestor_ids` are the database ids this one was restored from."""

    name: str
    database_id: str
    ancestor_ids: frozenset[str]


def ensure_meta(tx: Tx, cluster: str, fresh_id: str) -> ClusterMeta:
    """Names a new database; refuses one that belongs to another cluster name (ConfigError)."""
    tx.execute("INSERT INTO cluster_meta VALUES ('name', ?) ON CONFLICT DO NOTHING", (cluster,))
    tx.execute("INSERT INTO cluster_meta VALUES ('database_id', ?) ON CONFLICT DO NOTHING", (fresh_id,))
    meta = read_meta(tx)
    if meta.name != cluster:
        raise ConfigError(
            f"cluster.name is {cluster!r}, but the database in the state directory belongs to {meta.name!r}: "
            "jobs and peers know it under that name, so it cannot change; use another state_dir"
        )
    return meta


def read_meta(tx: Tx) -> ClusterMeta:
    values = {row["key"]: row["value"] for row in tx.execute("SELECT key, value FROM cluster_meta")}
    ancestors = frozenset(filter(None, values.get("ancestor_ids", "").split(",")))
    return ClusterMeta(values["name"], values["database_id"], ancestors)
