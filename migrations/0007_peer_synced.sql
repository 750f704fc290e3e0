-- When a peer had last told all its news, epoch milliseconds.
ALTER TABLE federation_peers ADD COLUMN synced_ms INTEGER;
