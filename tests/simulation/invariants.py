"""The promises of the design, checked against what controllers committed and engines were told (design, section 5)."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from iris_fed.backends.base import LaunchRequest
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller as Wired
from tests.simulation.cluster import JOBS_DAYS, MAX_SKEW_MS, Cluster
from tests.simulation.life import Observer
from tests.simulation.losses import Losses
from tests.simulation.serving import Answer, Carried
from tests.simulation.world import World

DAY_MS = 86_400_000
INSTANT_S = 0.001
UNEXPLAINED_S = 120.0
"""A waiting job says why within two rounds of the control loop's safety interval."""
JOBS = (
    "SELECT uid, job_id, parent_uid, state, error, exit_code, finished_ms, pending_reason, cancel_requested_ms,"
    " stop_state, requester, nonce, cluster, peer_status, submitted_ms FROM jobs"
)
ATTEMPT = (
    "SELECT j.uid, j.job_id, j.nonce, j.requester, j.parent_uid, j.submitted_ms, a.task_index, a.number,"
    " a.kill_requested_ms FROM attempts a JOIN jobs j ON j.uid = a.job_uid WHERE a.attempt_uid = ? AND a.mirrored = 0"
)
DONE_WITH = (
    "SELECT job_id, state, cancel_acked, created_ms, cancelled_ms FROM federated_jobs WHERE direction = 'SENT'"
    " AND nonce = ? AND (cancel_acked = 1 OR state = 'CLOSED' AND lost = 0)"
)
End = tuple[str, str, int | None, int]
OK = 200
ROOT_DEPTH = 2
"""Slashes in the id of a root job."""
NONCE_KEY = 4
"""Parts of what names an attempt by its nonce; by its job's name there is one more."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose an attempt is: the row that it was started for, in that lineage of a cluster's databases."""

    cluster: str
    lineage: int
    job_uid: int
    nonce: str


class Invariants:
    """`after_step` between any two steps; the rest is told what happens. `plain`: which parents speak with which
    of their peers without our extensions."""

    def __init__(self, world: World, clusters: Mapping[str, Cluster]) -> None:
        self._world = world
        self._clusters = clusters
        self._acked: dict[tuple[str, int, str], int | None] = {}
        self._ends: dict[tuple[str, int, int], End] = {}
        self._stops: dict[tuple[str, int, int], float] = {}
        self._unexplained: dict[tuple[str, int, int], float] = {}
        self._launched: set[tuple[object, ...]] = set()
        self._cancels: dict[tuple[str, int, str], float] = {}
        self._origins: dict[str, Origin] = {}
        self.losses = Losses(world, clusters)
        self.plain: frozenset[tuple[str, str]] = frozenset()
        for cluster in clusters.values():
            self._watch(cluster)

    def after_step(self) -> None:
        for cluster in self._clusters.values():
            observer = cluster.life.observer if cluster.life is not None else None
            if observer is not None and observer.has_news():
                self._check_committed(cluster, observer)
        self._world.raise_failures()

    def acknowledged(self, cluster: Cluster, lineage: int, job_id: str) -> None:
        """A user was given this id, durably, by that database of the cluster."""
        self._acked.setdefault((cluster.name, lineage, job_id), None)

    def origin_of(self, uid: str) -> Origin | None:
        """None = no such attempt was ever started."""
        return self._origins.get(uid)

    # --- what is committed ---

    def _check_committed(self, cluster: Cluster, observer: Observer) -> None:
        known = set()
        for row in observer.rows(JOBS):
            known.add(row["job_id"])
            key = (cluster.name, cluster.lineage, row["uid"])
            if row["finished_ms"] is not None:
                self._check_end(key, row)
            else:
                if key in self._ends and not self._ends.pop(key)[1].startswith("lost"):
                    self._world.fail(f"{cluster.name}: {row['job_id']} had ended and is {row['state']} again")
                self._check_reason(cluster, key, row, observer)
            if row["stop_state"] is not None or row["cancel_requested_ms"] is not None:
                self._stops.setdefault(key, self._world.loop.time())
            if (cluster.name, cluster.lineage, row["job_id"]) in self._acked:
                self._acked[cluster.name, cluster.lineage, row["job_id"]] = row["finished_ms"]
        self._check_acked(cluster, known)
        self.losses.check(cluster, observer)

    def _check_end(self, key: tuple[str, int, int], row: sqlite3.Row) -> None:
        end = (row["state"], row["error"], row["exit_code"], row["finished_ms"])
        before = self._ends.setdefault(key, end)
        if before != end:
            if not before[1].startswith("lost"):
                self._world.fail(f"{key[0]}: the end of {row['job_id']} changed from {before} to {end}")
            self._ends[key] = end
        if row["state"] != "SUCCEEDED" and not row["error"]:
            self._world.fail(f"{key[0]}: {row['job_id']} ended {row['state']} without a reason")

    def _check_reason(self, cluster: Cluster, key: tuple[str, int, int], row: sqlite3.Row, observer: Observer) -> None:
        waits = row["state"] == "PENDING" and not row["pending_reason"] and row["peer_status"] != "ASSIGNED"
        if not waits or (row["cluster"] and row["parent_uid"] is not None):
            self._unexplained.pop(key, None)
            return
        since = self._unexplained.setdefault(key, self._world.loop.time())
        if self._world.loop.time() - since < UNEXPLAINED_S:
            return
        attempts = observer.rows("SELECT 1 FROM attempts WHERE job_uid = ? AND finished_ms IS NULL", row["uid"])
        if not attempts:
            self._world.fail(f"{cluster.name}: {row['job_id']} has waited without a reason since {since:.0f} s")

    def _check_acked(self, cluster: Cluster, known: set[str]) -> None:
        for (name, lineage, job_id), finished_ms in list(self._acked.items()):
            if name != cluster.name or lineage != cluster.lineage or job_id in known:
                continue
            if finished_ms is None or finished_ms + JOBS_DAYS * DAY_MS > cluster.clock.now_ms():
                self._world.fail(f"{name}: {job_id} was acknowledged and is not known any more")
            del self._acked[name, lineage, job_id]

    # --- what engines are told ---

    def _watch(self, cluster: Cluster) -> None:
        cluster.engine.on_launch = lambda request: self._on_launch(cluster, request)
        cluster.engine.on_kill = lambda uid: self._on_kill(cluster, uid)

    def _on_launch(self, cluster: Cluster, request: LaunchRequest) -> None:
        row = self._attempt(cluster, request.attempt_uid)
        if row is None:
            self._world.fail(f"{cluster.name}: {request.task_id} was started without a committed attempt")
            return
        self._origins[request.attempt_uid] = Origin(cluster.name, cluster.lineage, row["uid"], row["nonce"])
        name = f"{cluster.name}: {request.task_id} attempt {row['number']}"
        for incarnation in (
            (cluster.name, row["job_id"], row["submitted_ms"], row["uid"]),
            (self._named_by_nonce(cluster, row), row["parent_uid"]),
        ):
            self._check_once(cluster, (*incarnation, row["task_index"], row["number"]), name)
        stopped = self._stops.get((cluster.name, cluster.lineage, row["uid"]))
        if stopped is not None and self._world.loop.time() - stopped > INSTANT_S:
            late_s = self._world.loop.time() - stopped
            self._world.fail(f"{name} was started {late_s:.3f} s after its job was to be stopped")
        if (cluster.name, cluster.lineage, row["nonce"]) in self._cancels:
            self._world.fail(f"{name} was started, though the cancel of its job had been answered")
        if row["requester"] and row["parent_uid"] is None:
            self._check_alone(cluster, row, name)
            if (row["requester"], cluster.name) in self.plain:
                self._check_not_given_up(cluster, row, name)

    def _named_by_nonce(self, cluster: Cluster, row: sqlite3.Row) -> object:
        """A peer without our extensions does not hear for which of its databases a delivery is meant, so that one
        that was repeated may run once in each (wire contract); nowhere twice in the same."""
        nonce = row["nonce"]
        return (nonce, cluster.lineage) if nonce and (row["requester"], cluster.name) in self.plain else nonce

    def _check_not_given_up(self, cluster: Cluster, row: sqlite3.Row, name: str) -> None:
        """Without our extensions a cancel fences nothing, and what was answered may not be the last word: a delivery
        may still be under way. But once the parent is done with it, no copy can be accepted any more (promise 5),
        unless the peer has lost since what it knew of it."""
        parent = self._clusters[row["requester"]]
        observer = parent.life.observer if parent.life is not None else None
        if observer is None or parent.lineage or parent.tainted or cluster.tainted:
            return
        for handle in observer.rows(DONE_WITH, row["nonce"]):
            if cluster.database_lost_ms < handle["created_ms"] - MAX_SKEW_MS:
                self._world.fail(f"{name} was started, though {parent.name} is done with it: {dict(handle)}")

    def _check_once(self, cluster: Cluster, attempt: tuple[object, ...], name: str) -> None:
        """A nonce names an incarnation whatever became of the peer's database; but children have their root's."""
        if attempt[0] and (len(attempt) > NONCE_KEY or attempt[1] is None):
            if attempt in self._launched and not cluster.tainted:
                self._world.fail(f"{name} was started twice")
            self._launched.add(attempt)

    def _check_alone(self, cluster: Cluster, row: sqlite3.Row, name: str) -> None:
        """An incarnation begins only when the former of its name has ended, or is given up as lost. One that was
        given up goes on until its peer hears otherwise."""
        parent = self._clusters[row["requester"]]
        observer = parent.life.observer if parent.life is not None else None
        if observer is None or parent.lineage or cluster.tainted:
            return
        others = observer.rows(
            "SELECT b.nonce, b.counterpart FROM federated_jobs a JOIN federated_jobs b"
            " ON b.job_id = a.job_id AND b.nonce <> a.nonce WHERE a.nonce = ? AND a.direction = 'SENT'"
            " AND a.lost = 0 AND b.direction = 'SENT' AND b.lost = 0",
            row["nonce"],
        )
        for other in others:
            if self._runs(other["counterpart"], other["nonce"]):
                self._world.fail(f"{name}: incarnation {other['nonce'][:6]} of the same name runs still")

    def _runs(self, name: str, nonce: str) -> bool:
        """Whether an attempt of that incarnation is alive on the engine of a cluster."""
        cluster = self._clusters[name]
        if cluster.life is None or cluster.life.observer is None:
            return False
        rows = cluster.life.observer.rows(
            "SELECT a.attempt_uid FROM attempts a JOIN jobs j ON j.uid = a.job_uid"
            " WHERE j.nonce = ? AND j.parent_uid IS NULL AND a.mirrored = 0 AND j.requester <> ''",
            nonce,
        )
        alive = set(cluster.engine.alive())
        return any(row["attempt_uid"] in alive for row in rows)

    def _on_kill(self, cluster: Cluster, uid: str) -> None:
        row = self._attempt(cluster, uid)
        if row is None:
            owner = cluster.engine.owner(uid).database_id
            if cluster.lineage == 0 or owner not in self._own_ids(cluster):
                self._world.fail(f"{cluster.name}: an attempt of database {owner[:6]} was killed, which is another")
        elif row["kill_requested_ms"] is None:
            self._world.fail(f"{cluster.name}: {row['job_id']}/{row['task_index']} was killed, but nobody asked for it")

    def _own_ids(self, cluster: Cluster) -> set[str]:
        """The database that runs, and those it was restored from."""
        assert cluster.life is not None
        assert cluster.life.observer is not None
        return cluster.life.observer.database_ids()

    def _attempt(self, cluster: Cluster, uid: str) -> sqlite3.Row | None:
        assert cluster.life is not None
        assert cluster.life.observer is not None
        rows = cluster.life.observer.rows(ATTEMPT, uid)
        return rows[0] if rows else None

    # --- what passes the network ---

    def on_sending(self, request: Carried) -> None:
        """A delivery leaves only for an incarnation that is marked sent and not cancelled (promise 5)."""
        if request.method != "LaunchJob" or request.source not in self._clusters:
            return
        cluster = self._clusters[request.source]
        assert cluster.life is not None
        assert cluster.life.observer is not None
        handoff = Wired.LaunchJobRequest.FromString(request.body).federation
        row = cluster.life.observer.rows(
            "SELECT f.sent, f.cancelled_ms, p.full_set_done FROM federated_jobs f LEFT JOIN federation_peers p"
            " ON p.peer = f.counterpart WHERE f.direction = 'SENT' AND f.nonce = ?",
            handoff.handoff_nonce,
        )[0]
        late = row["cancelled_ms"] is not None and row["cancelled_ms"] < cluster.clock.now_ms() - 1
        # A submit may have been decided on in the moment in which the peer was given up.
        too_early = not row["full_set_done"] and not self.losses.is_giving_up(cluster, request.target)
        if not row["sent"] or too_early or late:
            self._world.fail(f"{request} left too early or too late: {dict(row)}")

    def on_answered(self, request: Carried, answer: Answer) -> None:
        """A feed tells a cluster of its own jobs only (promise 7); a cancel that was answered was heard (5)."""
        if answer.status != OK or request.source not in self._clusters:
            return
        if request.method == "TerminateJob":
            self._heard(request)
        if request.method != "FederationSync":
            return
        for delta in Wired.FederationSyncResponse.FromString(answer.body).deltas:
            if not delta.job_id.split("/")[2].startswith(f"{request.source}."):
                self._world.fail(f"{request}: it was told of {delta.job_id}")

    def _heard(self, request: Carried) -> None:
        cancel = Wired.TerminateJobRequest.FromString(request.body)
        # Without our extensions it names no incarnation: see `_check_not_given_up`.
        if cancel.handoff_nonce and cancel.job_id.count("/") == ROOT_DEPTH:
            peer = self._clusters[request.target]
            self._cancels.setdefault((peer.name, peer.lineage, cancel.handoff_nonce), self._world.loop.time())
