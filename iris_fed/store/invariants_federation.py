"""What holds between jobs, handles and the changelog in a sound database. Each query names what breaks its rule."""

CLOCK_SLACK_MS = 600_000
"""So far a clock may have been set back without the order of times and of rows being held against it."""

_JOB_OF_HANDLE = "FROM jobs j WHERE j.job_id = f.job_id AND j.nonce = f.nonce"
_NAME_AT = "instr(substr(f.job_id, 2), '/') + 1"
"""Where the slash before the name of a root job stands."""
_LAST_CHANGE_MS = "max(j.submitted_ms, coalesce(j.started_ms, 0), coalesce(j.finished_ms, 0))"

FEDERATION_INVARIANTS = {
    "a job handed off has no handle": (
        "SELECT job_id AS name FROM jobs j WHERE cluster <> '' AND NOT EXISTS (SELECT 1 FROM federated_jobs f"
        " WHERE f.direction = 'SENT' AND f.counterpart = j.cluster AND f.nonce = j.nonce)"
    ),
    "an unfinished job handed off has a closed handle": (
        "SELECT j.job_id AS name FROM jobs j JOIN federated_jobs f ON f.direction = 'SENT'"
        " AND f.counterpart = j.cluster AND f.nonce = j.nonce"
        " WHERE j.parent_uid IS NULL AND j.finished_ms IS NULL AND f.state = 'CLOSED'"
    ),
    "an open handle has a finished job, or none": (
        "SELECT f.job_id AS name FROM federated_jobs f LEFT JOIN jobs j ON j.job_id = f.job_id AND j.nonce = f.nonce"
        " WHERE f.direction = 'SENT' AND f.state <> 'CLOSED' AND (j.uid IS NULL OR j.finished_ms IS NOT NULL)"
    ),
    "a handle does not name its job as the peer would know it": (
        "SELECT f.job_id AS name FROM federated_jobs f JOIN cluster_meta m ON m.key = 'name'"
        f" WHERE f.direction = 'SENT' AND f.remote_job_id <>"
        f" substr(f.job_id, 1, {_NAME_AT}) || m.value || '.' || substr(f.job_id, {_NAME_AT} + 1)"
    ),
    "a received job has no handle": (
        "SELECT job_id AS name FROM jobs j WHERE requester <> '' AND parent_uid IS NULL AND NOT EXISTS"
        " (SELECT 1 FROM federated_jobs f WHERE f.direction = 'RECEIVED' AND f.counterpart = j.requester"
        " AND f.nonce = j.nonce AND f.job_id = j.job_id AND f.state = 'ADMITTED')"
    ),
    "an admitted handle has no job": (
        "SELECT f.job_id AS name FROM federated_jobs f WHERE f.direction = 'RECEIVED' AND f.state = 'ADMITTED'"
        f" AND NOT EXISTS (SELECT 1 {_JOB_OF_HANDLE} AND j.requester = f.counterpart)"
    ),
    "a handle that is fenced, superseded or pruned has a job": (
        "SELECT f.job_id AS name FROM federated_jobs f WHERE f.direction = 'RECEIVED' AND f.state <> 'ADMITTED'"
        f" AND EXISTS (SELECT 1 {_JOB_OF_HANDLE} AND j.requester = f.counterpart)"
    ),
    "a received handle does not say how its job ended, or says it too early": (
        "SELECT f.job_id AS name FROM federated_jobs f WHERE f.direction = 'RECEIVED' AND ("
        "(f.closed_ms IS NULL) <> (f.state = 'ADMITTED')"
        " OR (f.end_state IS NULL) <> (f.state IN ('ADMITTED', 'FENCED'))"
        " OR f.end_state NOT IN ('SUCCEEDED', 'FAILED', 'KILLED', 'WORKER_FAILED', 'UNSCHEDULABLE')"
        " OR f.end_finished_ms IS NOT NULL AND f.end_state IS NULL)"
    ),
    "a cursor was acknowledged, or news removed, beyond the newest row of the changelog": (
        "SELECT requester AS name FROM federation_requesters"
        " WHERE max(coalesce(acked_seq, 0), pruned_seq) > (SELECT coalesce(max(seq), 0) FROM federation_changelog)"
    ),
    # Each job began with a row, which only a later one of it or the pruner replaces; a row that stands
    # behind all that was pruned, and is older than the job's last change, proves that this one's is missing.
    "a received job is missing from the changelog's news": (
        "SELECT j.job_id AS name FROM jobs j LEFT JOIN federation_requesters r ON r.requester = j.requester"
        " WHERE j.requester <> '' AND NOT EXISTS (SELECT 1 FROM federation_changelog c"
        " WHERE c.requester = j.requester AND c.nonce = j.nonce AND c.job_id = j.job_id)"
        " AND (coalesce(r.pruned_seq, 0) = 0 OR (SELECT c.time_ms FROM federation_changelog c"
        f" WHERE c.seq > r.pruned_seq ORDER BY c.seq LIMIT 1) < {_LAST_CHANGE_MS} - {CLOCK_SLACK_MS})"
    ),
    "a row of the changelog speaks of a handoff that is not known": (
        "SELECT c.job_id AS name FROM federation_changelog c LEFT JOIN federation_requesters r"
        " ON r.requester = c.requester WHERE c.seq > coalesce(r.pruned_seq, 0) AND NOT EXISTS"
        " (SELECT 1 FROM federated_jobs f WHERE f.direction = 'RECEIVED' AND f.counterpart = c.requester"
        " AND f.nonce = c.nonce)"
    ),
}
