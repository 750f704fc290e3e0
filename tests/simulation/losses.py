"""When a job that was handed off may end as lost, and what a person's word that a peer is gone comes to."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Mapping

from iris_fed.rpc.gen.cluster.controller_pb2 import Controller as Wired
from tests.simulation.cluster import DATABASE_ID, MAX_SKEW_MS, Cluster
from tests.simulation.life import Observer
from tests.simulation.serving import Carried
from tests.simulation.world import World

LONG_AWAY_MS = 45_000
"""Nearly as long as a job may be missing before it is given up."""
LOST = (
    "SELECT f.nonce, f.job_id, f.counterpart, f.database_id, f.created_ms, f.acked_ms, j.error FROM federated_jobs f"
    " LEFT JOIN jobs j ON j.nonce = f.nonce AND j.job_id = f.job_id WHERE f.direction = 'SENT' AND f.lost = 1"
)
OPEN = "SELECT nonce FROM federated_jobs WHERE direction = 'SENT' AND state <> 'CLOSED' AND counterpart = ?"
Held = tuple[int, frozenset[str]]
"""The lineage of the parent, and the nonces of its open handles."""


class Losses:
    def __init__(self, world: World, clusters: Mapping[str, Cluster]) -> None:
        self._world = world
        self._clusters = clusters
        self._lost: dict[tuple[str, int], frozenset[str]] = defaultdict(frozenset)
        self._ever_lost: set[str] = set()
        self._given_up: set[tuple[str, str]] = set()
        self._giving_up: Counter[tuple[str, str]] = Counter()
        self._reached: dict[str, set[str]] = defaultdict(set)

    def check(self, cluster: Cluster, observer: Observer) -> None:
        """Only what was handed to a database that is gone, or to a peer that a person gave up."""
        rows = {row["nonce"]: row for row in observer.rows(LOST)}
        database = (cluster.name, cluster.lineage)
        before, self._lost[database] = self._lost[database], frozenset(rows)
        for nonce in sorted(rows.keys() - before):
            row, peer = rows[nonce], self._clusters[rows[nonce]["counterpart"]]
            self._ever_lost.add(nonce)
            self._world.note("lost", f"{cluster.name} {row['job_id']}")
            if f" gave up {peer.name}, " in (row["error"] or "") and (cluster.name, peer.name) in self._given_up:
                continue
            if self._is_believed_only(row, peer) or self._holders(row) & peer.gone_ids:
                continue
            if not self._is_excused(cluster, peer):
                self._world.fail(f"{cluster.name}: {row['job_id']} is lost, but the database that has it is not gone")
        for nonce in sorted(before - rows.keys()):
            self._world.note("found", f"{cluster.name} {nonce[:6]}")

    def on_arriving(self, request: Carried) -> None:
        """Which databases a delivery may have reached: a peer without our extensions does not say which it has."""
        target = self._clusters.get(request.target)
        if request.method != "LaunchJob" or request.source not in self._clusters or target is None:
            return
        assert target.life is not None
        assert target.life.observer is not None
        nonce = Wired.LaunchJobRequest.FromString(request.body).federation.handoff_nonce
        self._reached[nonce] |= {row["value"] for row in target.life.observer.rows(DATABASE_ID)}

    def giving_up(self, cluster: Cluster, peer: str) -> Held:
        """An operator is about to say that the peer never comes back."""
        self._given_up.add((cluster.name, peer))
        self._giving_up[cluster.name, peer] += 1
        return cluster.lineage, self.open_at(cluster, peer)

    def answered(self, cluster: Cluster, peer: str) -> None:
        """The controller has said what came of it, or will not."""
        self._giving_up[cluster.name, peer] -= 1

    def is_giving_up(self, cluster: Cluster, peer: str) -> bool:
        """Whether such a word is under way."""
        return self._giving_up[cluster.name, peer] > 0

    def open_at(self, cluster: Cluster, peer: str) -> frozenset[str]:
        """The nonces of what a cluster has handed to a peer and is not over; nothing while it is down."""
        observer = cluster.life.observer if cluster.life is not None else None
        return frozenset() if observer is None else frozenset(row["nonce"] for row in observer.rows(OPEN, peer))

    def given_up(self, cluster: Cluster, peer: str, held: Held) -> None:
        """The controller has said that it is done: what was open then has ended, though some may be back already."""
        lineage, nonces = held
        observer = cluster.life.observer if cluster.life is not None else None
        if observer is None or cluster.lineage != lineage:
            return
        still_open = {row["nonce"] for row in observer.rows(OPEN, peer)}
        for nonce in sorted((nonces & still_open) - self._ever_lost):
            self._world.fail(f"{cluster.name}: {peer} was given up, but handle {nonce[:6]} is still open")

    def _is_excused(self, cluster: Cluster, peer: Cluster) -> bool:
        since_ms, until_ms = peer.swapped_ms
        away_ms = (self._world.now_ms() if until_ms is None else until_ms) - since_ms
        return away_ms > LONG_AWAY_MS or peer.tainted or bool(cluster.lineage)

    def _is_believed_only(self, row: sqlite3.Row, peer: Cluster) -> bool:
        """A delivery went unanswered, then for a while another database answered: the job is taken to be with the
        former (design, "Sync"), which may never have had it."""
        _, until_ms = peer.swapped_ms
        meanwhile = until_ms is None or until_ms > row["created_ms"] - MAX_SKEW_MS
        return row["acked_ms"] == row["created_ms"] and meanwhile

    def _holders(self, row: sqlite3.Row) -> set[str]:
        """Of databases. Without our extensions none is named: any will do that a delivery has reached."""
        return {row["database_id"]} if row["database_id"] else self._reached[row["nonce"]]
