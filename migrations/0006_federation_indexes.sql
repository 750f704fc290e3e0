-- What a parent asks at each answer of a peer must not cost more the more jobs are handed off: few of them
-- are ever missing, unreported, being cancelled, or waiting to be sent.

CREATE INDEX federated_jobs_missing ON federated_jobs (counterpart)
    WHERE direction = 'SENT' AND state <> 'CLOSED' AND missing_since_ms IS NOT NULL;
CREATE INDEX federated_jobs_cancel_heard ON federated_jobs (counterpart, cancelled_ms)
    WHERE direction = 'SENT' AND state <> 'CLOSED' AND cancel_acked = 1;
CREATE INDEX jobs_unreported ON jobs (cluster) WHERE peer_status = 'ASSIGNED' AND finished_ms IS NULL;
CREATE INDEX jobs_children_followed ON jobs (cluster)
    WHERE parent_uid IS NOT NULL AND finished_ms IS NULL AND cluster <> '';

DROP INDEX federated_jobs_outbox;
CREATE INDEX federated_jobs_outbox ON federated_jobs (counterpart, next_try_ms)
    WHERE direction = 'SENT' AND state <> 'CLOSED'
    AND (state = 'PENDING_HANDOFF' AND cancelled_ms IS NULL OR cancelled_ms IS NOT NULL AND cancel_acked = 0);
