-- What a peer remembers of each requester, for pruning the changelog (design, section 6, "Prune").

-- A row stays for ever: without `pruned_seq` a cursor from before a removal would be believed.
CREATE TABLE federation_requesters (
    requester TEXT PRIMARY KEY CHECK (requester <> ''),
    -- It has applied every row up to here; NULL = it never came with a cursor.
    acked_seq INTEGER CHECK (acked_seq >= 0),
    -- Rows of it up to here may be gone without a later one that tells the same.
    pruned_seq INTEGER NOT NULL DEFAULT 0 CHECK (pruned_seq >= 0),
    last_sync_ms INTEGER
) STRICT, WITHOUT ROWID;

-- When a received job that is gone had ended: its tombstone tells it.
ALTER TABLE federated_jobs ADD COLUMN end_finished_ms INTEGER;

-- Earlier rows that say the same as a later one; what is left of one incarnation. In the order of `seq`.
CREATE INDEX federation_changelog_by_subject ON federation_changelog (requester, nonce, job_id, task_index);
-- Handles that are over, oldest first.
CREATE INDEX federated_jobs_closed ON federated_jobs (direction, closed_ms) WHERE closed_ms IS NOT NULL;
