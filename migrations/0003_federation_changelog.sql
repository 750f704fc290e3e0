-- What changed on jobs that another cluster handed to us, for that cluster to read (design, section 4).
-- Triggers write it in the transaction of the change, so that no code can go around it. A change of
-- nothing writes nothing. `changelog_stamp(requester)` gives a fresh random stamp and remembers whom to
-- wake after COMMIT, `now_ms()` is the controller's clock; both are supplied by the connection.

CREATE TABLE federation_changelog (
    -- AUTOINCREMENT: a number is never used twice, even after the newest rows were pruned.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    stamp TEXT NOT NULL,
    requester TEXT NOT NULL CHECK (requester <> ''),
    nonce TEXT NOT NULL CHECK (nonce <> ''),
    job_id TEXT NOT NULL,
    task_index INTEGER,
    tombstone INTEGER NOT NULL DEFAULT 0 CHECK (tombstone IN (0, 1)),
    time_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX federation_changelog_by_requester ON federation_changelog (requester, seq);

CREATE TRIGGER changelog_job_inserted AFTER INSERT ON jobs WHEN NEW.requester <> ''
BEGIN
    INSERT INTO federation_changelog (stamp, requester, nonce, job_id, task_index, tombstone, time_ms)
    VALUES (changelog_stamp(NEW.requester), NEW.requester, NEW.nonce, NEW.job_id, NULL, 0, now_ms());
END;

CREATE TRIGGER changelog_job_updated AFTER UPDATE OF state, error, exit_code, pending_reason, started_ms, finished_ms, failure_count, preemption_count, task_count, backend_id ON jobs
WHEN NEW.requester <> '' AND (NEW.state IS NOT OLD.state
        OR NEW.error IS NOT OLD.error
        OR NEW.exit_code IS NOT OLD.exit_code
        OR NEW.pending_reason IS NOT OLD.pending_reason
        OR NEW.started_ms IS NOT OLD.started_ms
        OR NEW.finished_ms IS NOT OLD.finished_ms
        OR NEW.failure_count IS NOT OLD.failure_count
        OR NEW.preemption_count IS NOT OLD.preemption_count
        OR NEW.task_count IS NOT OLD.task_count
        OR NEW.backend_id IS NOT OLD.backend_id)
BEGIN
    INSERT INTO federation_changelog (stamp, requester, nonce, job_id, task_index, tombstone, time_ms)
    VALUES (changelog_stamp(NEW.requester), NEW.requester, NEW.nonce, NEW.job_id, NULL, 0, now_ms());
END;

CREATE TRIGGER changelog_job_deleted AFTER DELETE ON jobs WHEN OLD.requester <> ''
BEGIN
    INSERT INTO federation_changelog (stamp, requester, nonce, job_id, task_index, tombstone, time_ms)
    VALUES (changelog_stamp(OLD.requester), OLD.requester, OLD.nonce, OLD.job_id, NULL, 1, now_ms());
END;

CREATE TRIGGER changelog_task_inserted AFTER INSERT ON tasks WHEN NEW.requester <> ''
BEGIN
    INSERT INTO federation_changelog (stamp, requester, nonce, job_id, task_index, tombstone, time_ms)
    SELECT changelog_stamp(NEW.requester), NEW.requester, NEW.nonce, job_id, NEW.idx, 0, now_ms()
    FROM jobs WHERE uid = NEW.job_uid;
END;

CREATE TRIGGER changelog_task_updated AFTER UPDATE OF state, current_attempt, exit_code, error, pending_reason, started_ms, finished_ms, backend_id ON tasks
WHEN NEW.requester <> '' AND (NEW.state IS NOT OLD.state
        OR NEW.current_attempt IS NOT OLD.current_attempt
        OR NEW.exit_code IS NOT OLD.exit_code
        OR NEW.error IS NOT OLD.error
        OR NEW.pending_reason IS NOT OLD.pending_reason
        OR NEW.started_ms IS NOT OLD.started_ms
        OR NEW.finished_ms IS NOT OLD.finished_ms
        OR NEW.backend_id IS NOT OLD.backend_id)
BEGIN
    INSERT INTO federation_changelog (stamp, requester, nonce, job_id, task_index, tombstone, time_ms)
    SELECT changelog_stamp(NEW.requester), NEW.requester, NEW.nonce, job_id, NEW.idx, 0, now_ms()
    FROM jobs WHERE uid = NEW.job_uid;
END;

CREATE TRIGGER changelog_attempt_inserted AFTER INSERT ON attempts WHEN NEW.mirrored = 0
BEGIN
    INSERT INTO federation_changelog (stamp, requester, nonce, job_id, task_index, tombstone, time_ms)
    SELECT changelog_stamp(requester), requester, nonce, job_id, NEW.task_index, 0, now_ms()
    FROM jobs WHERE uid = NEW.job_uid AND requester <> '';
END;

CREATE TRIGGER changelog_attempt_updated AFTER UPDATE OF state, node, address, ports, exit_code, error, terminal_reason, is_worker_failure, started_ms, finished_ms, usage ON attempts
WHEN NEW.mirrored = 0 AND (NEW.state IS NOT OLD.state
        OR NEW.node IS NOT OLD.node
        OR NEW.address IS NOT OLD.address
        OR NEW.ports IS NOT OLD.ports
        OR NEW.exit_code IS NOT OLD.exit_code
        OR NEW.error IS NOT OLD.error
        OR NEW.terminal_reason IS NOT OLD.terminal_reason
        OR NEW.is_worker_failure IS NOT OLD.is_worker_failure
        OR NEW.started_ms IS NOT OLD.started_ms
        OR NEW.finished_ms IS NOT OLD.finished_ms
        OR NEW.usage IS NOT OLD.usage)
BEGIN
    INSERT INTO federation_changelog (stamp, requester, nonce, job_id, task_index, tombstone, time_ms)
    SELECT changelog_stamp(requester), requester, nonce, job_id, NEW.task_index, 0, now_ms()
    FROM jobs WHERE uid = NEW.job_uid AND requester <> '';
END;

-- A fence speaks of an incarnation that has no job row.
CREATE TRIGGER changelog_fence_inserted AFTER INSERT ON federated_jobs
WHEN NEW.direction = 'RECEIVED' AND NEW.state = 'FENCED'
BEGIN
    INSERT INTO federation_changelog (stamp, requester, nonce, job_id, task_index, tombstone, time_ms)
    VALUES (changelog_stamp(NEW.counterpart), NEW.counterpart, NEW.nonce, NEW.job_id, NULL, 1, now_ms());
END;
