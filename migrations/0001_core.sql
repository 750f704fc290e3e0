-- Jobs, tasks, attempts and what happened to them. Times are epoch milliseconds.

CREATE TABLE cluster_meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row per job id: the current incarnation. `requester` is set on a job that another cluster
-- handed to us and on its children, `cluster` on one that we handed to a peer.
CREATE TABLE jobs (
    uid INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id TEXT NOT NULL UNIQUE CHECK (job_id LIKE '/%/%'),
    parent_uid INTEGER REFERENCES jobs (uid) ON DELETE CASCADE,
    user TEXT NOT NULL,
    submitting_user TEXT NOT NULL,
    spec TEXT NOT NULL,
    band INTEGER NOT NULL CHECK (band BETWEEN 0 AND 3),
    state TEXT NOT NULL CHECK (state IN (
        'PENDING', 'BUILDING', 'RUNNING', 'SUCCEEDED', 'FAILED', 'KILLED', 'WORKER_FAILED', 'UNSCHEDULABLE')),
    error TEXT NOT NULL DEFAULT '',
    exit_code INTEGER,
    pending_reason TEXT NOT NULL DEFAULT '',
    submitted_ms INTEGER NOT NULL,
    started_ms INTEGER,
    finished_ms INTEGER,
    failure_count INTEGER NOT NULL DEFAULT 0,
    preemption_count INTEGER NOT NULL DEFAULT 0,
    task_count INTEGER NOT NULL CHECK (task_count >= 0),
    -- Jobs of one demand ask for the same: where one finds no room, no other does.
    demand TEXT NOT NULL,
    -- How many of its tasks wait for a place here.
    queued_tasks INTEGER NOT NULL DEFAULT 0 CHECK (queued_tasks >= 0),
    -- Not started by then: it ends UNSCHEDULABLE.
    scheduling_deadline_ms INTEGER,
    cancel_requested_ms INTEGER,
    stop_state TEXT CHECK (stop_state IN ('FAILED', 'KILLED', 'WORKER_FAILED', 'UNSCHEDULABLE')),
    bundle_id TEXT NOT NULL DEFAULT '',
    requester TEXT NOT NULL DEFAULT '',
    nonce TEXT NOT NULL DEFAULT '',
    cluster TEXT NOT NULL DEFAULT '',
    backend_id TEXT NOT NULL DEFAULT '',
    peer_status TEXT NOT NULL DEFAULT 'NONE' CHECK (peer_status IN (
        'NONE', 'PENDING_SCHEDULING', 'ASSIGNED', 'SYNCED', 'REJECTED')),
    -- A received job is never handed on (design, section 6).
    CHECK (requester = '' OR cluster = ''),
    CHECK ((requester = '' AND cluster = '') = (nonce = '')),
    CHECK ((finished_ms IS NOT NULL)
        = (state IN ('SUCCEEDED', 'FAILED', 'KILLED', 'WORKER_FAILED', 'UNSCHEDULABLE')))
) STRICT;

CREATE INDEX jobs_by_date ON jobs (submitted_ms, uid);
CREATE INDEX jobs_by_user ON jobs (user, submitted_ms, uid);
CREATE INDEX jobs_by_user_state ON jobs (user, state);
CREATE INDEX jobs_by_failures ON jobs (failure_count, uid);
CREATE INDEX jobs_by_preemptions ON jobs (preemption_count, uid);
CREATE INDEX jobs_finished ON jobs (finished_ms) WHERE finished_ms IS NOT NULL AND parent_uid IS NULL;
CREATE INDEX jobs_by_parent ON jobs (parent_uid) WHERE parent_uid IS NOT NULL;
CREATE INDEX jobs_by_state ON jobs (state, submitted_ms, uid);
-- The queue: for each demand its jobs in the order in which they deserve a place.
CREATE INDEX jobs_queue ON jobs (demand, band, submitted_ms, uid, queued_tasks) WHERE queued_tasks > 0;
CREATE INDEX jobs_unexplained ON jobs (demand) WHERE queued_tasks > 0 AND pending_reason = '';

CREATE INDEX jobs_by_bundle ON jobs (bundle_id) WHERE bundle_id <> '';
CREATE INDEX jobs_scheduling_deadline ON jobs (scheduling_deadline_ms)
    WHERE scheduling_deadline_ms IS NOT NULL AND cluster = '' AND started_ms IS NULL AND finished_ms IS NULL;

-- Files that jobs bring along, by the SHA-256 of their bytes; the bytes lie in the state directory and
-- are there before a job names them.
CREATE TABLE bundles (
    bundle_id TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    used_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks (
    job_uid INTEGER NOT NULL REFERENCES jobs (uid) ON DELETE CASCADE,
    idx INTEGER NOT NULL CHECK (idx >= 0),
    state TEXT NOT NULL CHECK (state IN (
        'PENDING', 'ASSIGNED', 'BUILDING', 'RUNNING', 'SUCCEEDED', 'FAILED', 'KILLED', 'WORKER_FAILED',
        'UNSCHEDULABLE', 'PREEMPTED', 'COSCHED_FAILED', 'MISSING')),
    current_attempt INTEGER NOT NULL DEFAULT -1,
    exit_code INTEGER,
    error TEXT NOT NULL DEFAULT '',
    pending_reason TEXT NOT NULL DEFAULT '',
    submitted_ms INTEGER NOT NULL,
    started_ms INTEGER,
    finished_ms INTEGER,
    failure_count INTEGER NOT NULL DEFAULT 0,
    preemption_count INTEGER NOT NULL DEFAULT 0,
    not_before_ms INTEGER NOT NULL DEFAULT 0,
    backend_id TEXT NOT NULL DEFAULT '',
    requester TEXT NOT NULL DEFAULT '',
    nonce TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (job_uid, idx)
) STRICT, WITHOUT ROWID;

CREATE INDEX tasks_pending ON tasks (job_uid, idx) WHERE state = 'PENDING';
CREATE INDEX tasks_retrying ON tasks (not_before_ms) WHERE state = 'PENDING' AND not_before_ms > 0;
CREATE INDEX tasks_failed ON tasks (job_uid, idx)
    WHERE state IN ('FAILED', 'WORKER_FAILED', 'UNSCHEDULABLE');

-- Values of a job's secrets, apart from what is shown of it; they go with its end.
CREATE TABLE job_secrets (
    job_uid INTEGER NOT NULL REFERENCES jobs (uid) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (job_uid, name)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER secrets_end_with_their_job AFTER UPDATE OF finished_ms ON jobs WHEN NEW.finished_ms IS NOT NULL
BEGIN
    DELETE FROM job_secrets WHERE job_uid = NEW.uid;
END;

-- `mirrored`: it runs on a peer, whose word its uid is; ours alone are unique.
CREATE TABLE attempts (
    job_uid INTEGER NOT NULL,
    task_index INTEGER NOT NULL,
    number INTEGER NOT NULL CHECK (number >= 0),
    attempt_uid TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN (
        'PENDING', 'ASSIGNED', 'BUILDING', 'RUNNING', 'SUCCEEDED', 'FAILED', 'KILLED', 'WORKER_FAILED',
        'UNSCHEDULABLE', 'PREEMPTED', 'COSCHED_FAILED', 'MISSING')),
    backend_id TEXT NOT NULL DEFAULT '',
    node TEXT NOT NULL DEFAULT '',
    address TEXT NOT NULL DEFAULT '',
    devices TEXT NOT NULL DEFAULT '[]',
    ports TEXT NOT NULL DEFAULT '{}',
    exit_code INTEGER,
    error TEXT NOT NULL DEFAULT '',
    terminal_reason TEXT NOT NULL DEFAULT '',
    -- Its output and work directory were removed after their time.
    files_gone INTEGER NOT NULL DEFAULT 0 CHECK (files_gone IN (0, 1)),
    is_worker_failure INTEGER NOT NULL DEFAULT 0,
    created_ms INTEGER NOT NULL,
    started_ms INTEGER,
    finished_ms INTEGER,
    kill_requested_ms INTEGER,
    usage TEXT NOT NULL DEFAULT '{}',
    mirrored INTEGER NOT NULL DEFAULT 0 CHECK (mirrored IN (0, 1)),
    PRIMARY KEY (job_uid, task_index, number),
    FOREIGN KEY (job_uid, task_index) REFERENCES tasks (job_uid, idx) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX attempts_by_uid ON attempts (attempt_uid) WHERE mirrored = 0;
CREATE INDEX attempts_live ON attempts (attempt_uid) WHERE mirrored = 0 AND finished_ms IS NULL;
CREATE INDEX attempts_live_by_backend ON attempts (backend_id) WHERE mirrored = 0 AND finished_ms IS NULL;
CREATE INDEX attempts_with_files ON attempts (finished_ms)
    WHERE mirrored = 0 AND files_gone = 0 AND finished_ms IS NOT NULL;
CREATE INDEX attempts_to_kill ON attempts (attempt_uid)
    WHERE mirrored = 0 AND finished_ms IS NULL AND kill_requested_ms IS NOT NULL;

CREATE TABLE job_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_uid INTEGER NOT NULL REFERENCES jobs (uid) ON DELETE CASCADE,
    time_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    message TEXT NOT NULL,
    task_index INTEGER
) STRICT;

CREATE INDEX job_events_by_job ON job_events (job_uid, id);
