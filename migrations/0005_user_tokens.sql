-- User tokens of this controller (design, section 7): one counts while its row is here and not revoked.

-- The tokens themselves are nowhere. Rows go once their token has expired.
CREATE TABLE user_tokens (
    token_id TEXT PRIMARY KEY CHECK (token_id <> ''),
    principal TEXT NOT NULL CHECK (principal <> ''),
    role TEXT NOT NULL CHECK (role IN ('admin', 'user', 'dashboard')),
    note TEXT NOT NULL DEFAULT '',
    created_by TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL CHECK (expires_ms > created_ms),
    -- NULL = it stands. Never taken back.
    revoked_ms INTEGER,
    revoked_by TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

CREATE INDEX user_tokens_by_principal ON user_tokens (principal, created_ms);
CREATE INDEX user_tokens_by_expiry ON user_tokens (expires_ms);
