-- Handles: one row per incarnation of a handoff, in either direction (design, section 6).

CREATE TABLE federated_jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    direction TEXT NOT NULL CHECK (direction IN ('SENT', 'RECEIVED')),
    -- SENT: the peer it goes to. RECEIVED: the requester it came from.
    counterpart TEXT NOT NULL,
    nonce TEXT NOT NULL CHECK (nonce <> ''),
    -- The id in our own jobs table.
    job_id TEXT NOT NULL,
    -- The id under which the peer runs it (SENT), or '' (RECEIVED: it is job_id).
    remote_job_id TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL,
    policy TEXT NOT NULL DEFAULT 'UNSPECIFIED',
    owner TEXT NOT NULL DEFAULT '',
    submitting_user TEXT NOT NULL DEFAULT '',
    sent INTEGER NOT NULL DEFAULT 0,
    unanswered INTEGER NOT NULL DEFAULT 0,
    cancelled_ms INTEGER,
    cancel_acked INTEGER NOT NULL DEFAULT 0,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL DEFAULT 0,
    acked_ms INTEGER,
    closed_ms INTEGER,
    -- The peer's database id that the last delivery was meant for.
    database_id TEXT NOT NULL DEFAULT '',
    deliveries INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    next_try_ms INTEGER NOT NULL DEFAULT 0,
    last_error TEXT NOT NULL DEFAULT '',
    refusal TEXT NOT NULL DEFAULT '',
    missing_since_ms INTEGER,
    lost INTEGER NOT NULL DEFAULT 0,
    adopted INTEGER NOT NULL DEFAULT 0,
    end_state TEXT,
    end_error TEXT NOT NULL DEFAULT '',
    end_exit_code INTEGER,
    UNIQUE (direction, counterpart, nonce),
    CHECK ((direction = 'SENT' AND state IN ('PENDING_HANDOFF', 'HANDED_OFF', 'CLOSED'))
        OR (direction = 'RECEIVED' AND state IN ('ADMITTED', 'FENCED', 'SUPERSEDED', 'PRUNED'))),
    CHECK (direction = 'RECEIVED' OR (closed_ms IS NOT NULL) = (state = 'CLOSED'))
) STRICT;

-- At most one open incarnation of a name (promise 2).
CREATE UNIQUE INDEX federated_jobs_open_sent ON federated_jobs (job_id)
    WHERE direction = 'SENT' AND state <> 'CLOSED';
CREATE UNIQUE INDEX federated_jobs_open_received ON federated_jobs (job_id)
    WHERE direction = 'RECEIVED' AND state = 'ADMITTED';
CREATE INDEX federated_jobs_by_counterpart ON federated_jobs (direction, counterpart, id);
CREATE INDEX federated_jobs_by_job ON federated_jobs (job_id, direction, id);
CREATE INDEX federated_jobs_outbox ON federated_jobs (counterpart, next_try_ms)
    WHERE direction = 'SENT' AND state <> 'CLOSED';

-- What a parent remembers of each peer across restarts.
CREATE TABLE federation_peers (
    peer TEXT PRIMARY KEY,
    cursor TEXT NOT NULL DEFAULT '',
    database_id TEXT NOT NULL DEFAULT '',
    full_set_done INTEGER NOT NULL DEFAULT 0,
    last_contact_ms INTEGER,
    lost_contact_ms INTEGER,
    last_error TEXT NOT NULL DEFAULT '',
    backends TEXT,
    backends_ms INTEGER
) STRICT, WITHOUT ROWID;
