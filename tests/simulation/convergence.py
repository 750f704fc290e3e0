"""What must be true in the end, once faults have stopped and time has passed."""

import sqlite3
from collections.abc import Iterator, Mapping

from iris_fed.model.limits import REPLAY_WINDOW_MS
from iris_fed.store.check import check_database
from iris_fed.store.opening import DATABASE_NAME
from tests.simulation.cluster import Cluster
from tests.simulation.life import Observer

DRIFT_MS = 60_000
"""Clocks differ, and a report takes its time."""
FEDERATION_TABLES = ("federated_jobs", "federation_peers", "federation_changelog")
TREE = (
    "SELECT uid, job_id, state, exit_code, failure_count, preemption_count, finished_ms FROM jobs"
    " WHERE nonce = ? AND (cluster = ? OR requester = ?) ORDER BY job_id"
)
TASKS = "SELECT idx, state, current_attempt, exit_code FROM tasks WHERE job_uid = ? ORDER BY idx"
ATTEMPTS = (
    "SELECT task_index, number, attempt_uid, state, exit_code FROM attempts WHERE job_uid = ?"
    " ORDER BY task_index, number"
)
LOST = (
    "SELECT f.job_id, f.nonce, f.counterpart FROM federated_jobs f JOIN jobs j ON j.job_id = f.job_id"
    " AND j.nonce = f.nonce WHERE f.direction = 'SENT' AND f.lost = 1"
)
SHOWN = (
    "SELECT f.state, f.end_state FROM federated_jobs f WHERE f.direction = 'RECEIVED' AND f.counterpart = ?"
    " AND f.nonce = ? AND (f.state = 'ADMITTED' OR f.state = 'PRUNED' AND f.end_finished_ms IS NOT NULL)"
)
Pairs = frozenset[tuple[str, str]]


def unsettled(clusters: Mapping[str, Cluster]) -> list[str]:
    """What is not over yet; with time it must become nothing."""
    return [words for cluster in clusters.values() for words in _unsettled_at(cluster)]


def disagreements(clusters: Mapping[str, Cluster], plain: Pairs) -> list[str]:
    """Where two clusters, or the parts of one, say different things. `plain`: who speaks with whom without our
    extensions."""
    found: list[str] = []
    for cluster in clusters.values():
        found += _mirror_problems(cluster, clusters, plain)
        found += _still_lost(cluster, clusters)
        found += [f"{cluster.name}: {words}" for words in check_database(cluster.state_dir / DATABASE_NAME)]
        found += _unknown_attempts(cluster)
        if cluster.plan.inert:
            found += [
                f"{cluster.name} has no peers, yet {table} holds rows"
                for table in FEDERATION_TABLES
                if _observer(cluster).rows(f"SELECT 1 FROM {table} LIMIT 1")
            ]
    return found


def alive_though_closed(clusters: Mapping[str, Cluster], plain: Pairs) -> list[str]:
    """What runs on a peer though its parent has done with it, and is not being stopped either. Of a `plain` pair
    (parent, peer) what was lost may: a cancel that names no incarnation might hit the next one."""
    found: list[str] = []
    for peer in clusters.values():
        rows = _observer(peer).rows(
            "SELECT job_id, requester, nonce FROM jobs WHERE requester <> '' AND parent_uid IS NULL"
            " AND finished_ms IS NULL AND stop_state IS NULL"
        )
        for row in rows:
            handles = _observer(clusters[row["requester"]]).rows(
                "SELECT 1 FROM federated_jobs WHERE direction = 'SENT' AND nonce = ? AND state = 'CLOSED'"
                " AND lost <= ?",
                row["nonce"],
                int((row["requester"], peer.name) not in plain),
            )
            if handles:
                found.append(f"{peer.name}: {row['job_id']} goes on, though {row['requester']} has closed its handle")
    return found


def _unsettled_at(cluster: Cluster) -> Iterator[str]:
    if cluster.running is None:
        yield f"{cluster.name} is not up"
        return
    observer = _observer(cluster)
    for row in observer.rows("SELECT job_id, state, pending_reason FROM jobs WHERE finished_ms IS NULL"):
        yield f"{cluster.name}: {row['job_id']} is {row['state']} ({row['pending_reason']})"
    for row in observer.rows("SELECT * FROM federated_jobs WHERE direction = 'SENT' AND state <> 'CLOSED'"):
        yield f"{cluster.name}: the handle of {row['job_id']} is {row['state']} ({row['last_error']})"
    for row in observer.rows("SELECT task_index FROM attempts WHERE finished_ms IS NULL AND mirrored = 0"):
        yield f"{cluster.name}: an attempt of task {row['task_index']} is not over"


def _mirror_problems(cluster: Cluster, clusters: Mapping[str, Cluster], plain: Pairs) -> Iterator[str]:
    observer = _observer(cluster)
    handles = observer.rows(
        "SELECT f.*, j.state AS job_state, j.error FROM federated_jobs f JOIN jobs j ON j.nonce = f.nonce"
        " AND j.job_id = f.job_id WHERE f.direction = 'SENT' AND f.lost = 0"
    )
    for handle in handles:
        peer = clusters[handle["counterpart"]]
        if peer.tainted or cluster.tainted or handle["closed_ms"] < peer.database_lost_ms + DRIFT_MS:
            continue
        rows = _observer(peer).rows(
            "SELECT * FROM federated_jobs WHERE direction = 'RECEIVED' AND counterpart = ? AND nonce = ?",
            cluster.name,
            handle["nonce"],
        )
        words = f"{cluster.name}: {handle['job_id']} ({handle['nonce'][:6]}) is {handle['job_state']}"
        forgotten = handle["created_ms"] + REPLAY_WINDOW_MS < cluster.clock.now_ms()
        if not rows and (cluster.name, peer.name) in plain and _acked_by_cancel(handle):
            continue
        if rows or not (peer.lineage or cluster.lineage or forgotten):
            yield from _compare_handle(words, handle, rows[0] if rows else None)
        if rows and rows[0]["state"] == "ADMITTED" and not handle["refusal"]:
            yield from _compare_trees(words, handle, observer, _observer(peer), cluster.name)


def _acked_by_cancel(handle: sqlite3.Row) -> bool:
    """A delivery went unanswered, and a cancel was answered. Without our extensions that cancel named no incarnation:
    it may have been the former of the name that it found, and whose end is shown. Cancelled jobs only."""
    return handle["cancelled_ms"] is not None and (handle["acked_ms"] or 0) >= handle["cancelled_ms"]


def _still_lost(cluster: Cluster, clusters: Mapping[str, Cluster]) -> Iterator[str]:
    """What its peer shows (again) is not lost, unless the name was used since (promise 6)."""
    for handle in _observer(cluster).rows(LOST):
        shown = _observer(clusters[handle["counterpart"]]).rows(SHOWN, cluster.name, handle["nonce"])
        if shown:
            yield f"{cluster.name}: {handle['job_id']} is lost, but {handle['counterpart']} shows it: {tuple(shown[0])}"


def _compare_handle(words: str, handle: sqlite3.Row, received: sqlite3.Row | None) -> Iterator[str]:
    if received is None:
        if handle["acked_ms"] is not None and not handle["refusal"]:
            yield f"{words}, acknowledged, but {handle['counterpart']} never had it"
    elif received["state"] == "FENCED":
        if handle["job_state"] not in ("KILLED", "FAILED"):
            yield f"{words}, but {handle['counterpart']} has fenced it"
    elif received["state"] in ("PRUNED", "SUPERSEDED"):
        own_end = handle["refusal"] and received["end_state"] == "KILLED"
        if not own_end and received["end_state"] != handle["job_state"]:
            yield f"{words}, but it ended {received['end_state']} on {handle['counterpart']}"


def _compare_trees(words: str, handle: sqlite3.Row, here: Observer, there: Observer, name: str) -> Iterator[str]:
    folded = handle["remote_job_id"]
    ours = {row["job_id"]: row for row in here.rows(TREE, handle["nonce"], handle["counterpart"], "-")}
    theirs = {row["job_id"]: row for row in there.rows(TREE, handle["nonce"], "-", name)}
    expected = {handle["job_id"] + job_id.removeprefix(folded): row for job_id, row in theirs.items()}
    if ours.keys() != expected.keys():
        yield f"{words}: the tree here is {sorted(ours)}, on {handle['counterpart']} {sorted(theirs)}"
        return
    for job_id, own in ours.items():
        other = expected[job_id]
        if tuple(own)[2:6] != tuple(other)[2:6]:
            yield f"{words}: {job_id} here {tuple(own)[2:]}, there {tuple(other)[2:]}"
        for what, sql in (("tasks", TASKS), ("attempts", ATTEMPTS)):
            mine = [tuple(row) for row in here.rows(sql, own["uid"])]
            their = [tuple(row) for row in there.rows(sql, other["uid"])]
            if mine != their:
                yield f"{words}: {what} of {job_id} here {mine}, there {their}"


def _unknown_attempts(cluster: Cluster) -> Iterator[str]:
    """Attempts of another database may go on; of this one, or of one it was restored from, they must not."""
    observer = _observer(cluster)
    known = {row["attempt_uid"] for row in observer.rows("SELECT attempt_uid FROM attempts")}
    own = observer.database_ids()
    for uid in cluster.engine.alive():
        if uid not in known and cluster.engine.owner(uid).database_id in own:
            yield f"{cluster.name}: an attempt runs that nobody knows"


def _observer(cluster: Cluster) -> Observer:
    assert cluster.life is not None
    assert cluster.life.observer is not None
    return cluster.life.observer
