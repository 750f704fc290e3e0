"""People who read what jobs printed, and their stories, also of jobs that a peer runs."""

import asyncio
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from iris_fed.controller.logs import RELAY_PATIENCE_S
from iris_fed.errors import IrisFedError
from iris_fed.rpc.gen.irisfed import cluster_pb2
from tests.simulation.cluster import CALL_TIMEOUT_S, Cluster
from tests.simulation.invariants import Invariants
from tests.simulation.serving import Carried
from tests.simulation.users import Users
from tests.simulation.world import World

JOB = "SELECT uid, job_id, nonce, cluster, submitted_ms FROM jobs WHERE job_id = ?"
RECEIVED = "SELECT created_ms, state FROM federated_jobs WHERE direction = 'RECEIVED' AND counterpart = ? AND nonce = ?"
WITHIN_S: Mapping[str, float] = {"ReadLogs": RELAY_PATIENCE_S + CALL_TIMEOUT_S, "ListJobEvents": CALL_TIMEOUT_S}
"""So soon a controller has answered for itself and a peer that may be gone, unless it follows."""
READER_PATIENCE_S = 120.0
"""Then a person goes away."""
TAKEN_OVER = "handed over by"
PRINTED = b"this is "


@dataclass(frozen=True, slots=True)
class _Asked:
    """Of which incarnation: by its row, as committed in that lineage of the cluster when the question left."""

    cluster: Cluster
    lineage: int
    row: sqlite3.Row


class Readers:
    def __init__(self, world: World, clusters: Mapping[str, Cluster], users: Users, invariants: Invariants) -> None:
        self._world = world
        self._clusters = clusters
        self._users = users
        self._invariants = invariants

    async def logs(self, cluster: Cluster) -> None:
        """Without following: what there is now."""
        client, asked = self._users.admin(cluster), self._ask(cluster)
        if client is None or asked is None:
            return
        job_id, lines = asked.row["job_id"], 0
        self._world.note("logs", f"{cluster.name} {job_id}")
        try:
            async with asyncio.timeout(READER_PATIENCE_S):
                async for batch in client.logs(job_id, submitted_ms=asked.row["submitted_ms"]):
                    for line in batch.lines:
                        self._check_line(asked, line)
                        lines += 1
        except TimeoutError:
            self._world.note("answer", f"{cluster.name} logs {job_id}: given up after {lines} lines")
        except IrisFedError as error:
            self._world.note("answer", f"{cluster.name} logs {job_id}: {error.code} after {lines} lines")
        else:
            self._world.note("answer", f"{cluster.name} logs {job_id}: {lines} lines")

    async def story(self, cluster: Cluster) -> None:
        """Its events, here and on its peer."""
        client, asked = self._users.admin(cluster), self._ask(cluster)
        if client is None or asked is None:
            return
        job_id = asked.row["job_id"]
        self._world.note("story", f"{cluster.name} {job_id}")
        try:
            events = (await client.events(job_id)).events
        except IrisFedError as error:
            self._world.note("answer", f"{cluster.name} story {job_id}: {error.code}")
            return
        self._world.note("answer", f"{cluster.name} story {job_id}: {len(events)} events")
        self._check_story(asked, [event for event in events if TAKEN_OVER in event.message])

    def on_served(self, request: Carried, after_s: float) -> None:
        """Nobody who reads waits for a peer longer than the bound."""
        bound_s = WITHIN_S.get(request.method)
        if bound_s is not None and after_s > bound_s:
            self._world.fail(f"{request} took {after_s:.1f} s, more than {bound_s} s")

    def _ask(self, cluster: Cluster) -> _Asked | None:
        job_id = self._users.some_known(cluster)
        row = None if job_id is None else self._row(cluster, job_id)
        return None if row is None else _Asked(cluster, cluster.lineage, row)

    def _row(self, cluster: Cluster, job_id: str) -> sqlite3.Row | None:
        observer = cluster.life.observer if cluster.life is not None else None
        rows = observer.rows(JOB, job_id) if observer is not None else []
        return rows[0] if rows else None

    def _check_line(self, asked: _Asked, line: cluster_pb2.LogLine) -> None:
        """A line is of the incarnation that was meant."""
        cluster, row = asked.cluster, asked.row
        words = f"{cluster.name}: the output of {row['job_id']} shows {line.data!r}"
        if not line.data.startswith(PRINTED) or line.task_id.rpartition("/")[0] != row["job_id"]:
            self._world.fail(f"{words} as of {line.task_id}")
            return
        uid = line.data.removeprefix(PRINTED).strip().decode()
        origin = self._invariants.origin_of(uid)
        if origin is None:
            self._world.fail(f"{words}, of an attempt that was never started")
        elif not row["cluster"]:
            if (origin.cluster, origin.lineage, origin.job_uid) != (cluster.name, asked.lineage, row["uid"]):
                self._world.fail(f"{words}, of {origin}")
        elif origin.nonce not in self._meant_by(asked) and self._is_received(
            row["cluster"], cluster.name, row["nonce"]
        ):
            self._world.fail(f"{words}, of {origin}, asked was {row['nonce'][:6]}")

    def _meant_by(self, asked: _Asked) -> set[str]:
        """The incarnation, and the one that it may have given way to while the answer was under way."""
        now = self._row(asked.cluster, asked.row["job_id"])
        same = now is not None and now["submitted_ms"] == asked.row["submitted_ms"]
        return {asked.row["nonce"], now["nonce"]} if same and now is not None else {asked.row["nonce"]}

    def _is_received(self, peer: str, requester: str, nonce: str) -> bool:
        """A handoff that was answered with the job of an earlier one (KEEP) left no handle, and means that job."""
        life = self._clusters[peer].life
        observer = life.observer if life is not None else None
        return observer is not None and bool(observer.rows(RECEIVED, requester, nonce))

    def _check_story(self, asked: _Asked, taken: list[cluster_pb2.JobEvent]) -> None:
        """The peer's part begins once, when it took over the incarnation that was meant."""
        cluster, row = asked.cluster, asked.row
        if len(taken) > 1:
            self._world.fail(f"{cluster.name}: the story of {row['job_id']} begins {len(taken)} times")
        peer = self._clusters.get(row["cluster"])
        observer = peer.life.observer if peer is not None and peer.life is not None else None
        if not taken or observer is None:
            return
        handles = [h for nonce in sorted(self._meant_by(asked)) for h in observer.rows(RECEIVED, cluster.name, nonce)]
        if handles and taken[0].time_ms not in [handle["created_ms"] for handle in handles]:
            self._world.fail(f"{cluster.name}: the story of {row['job_id']} is that of another incarnation")
