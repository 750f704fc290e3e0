"""User tokens that were made and have not expired: which stand, which were revoked."""

import sqlite3

from iris_fed.model.tokens import UserToken
from iris_fed.store.db import Tx

PRUNED_AT_ONCE = 1_000


def insert_token(tx: Tx, token: UserToken) -> None:
    tx.execute(
        "INSERT INTO user_tokens (token_id, principal, role, note, created_by, created_ms, expires_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            token.token_id,
            token.principal,
            token.role,
            token.note,
            token.created_by,
            token.created_ms,
            token.expires_ms,
        ),
    )


def token_by_id(tx: Tx, token_id: str) -> UserToken | None:
    row = tx.execute("SELECT * FROM user_tokens WHERE token_id = ?", (token_id,)).fetchone()
    return None if row is None else _token(row)


def list_tokens(tx: Tx, principal: str, now_ms: int, limit: int) -> list[UserToken]:
    """Those of `principal` ('' = everybody's) that have not expired, newest first."""
    where, values = ("principal = ? AND ", [principal]) if principal else ("", [])
    rows = tx.execute(
        f"SELECT * FROM user_tokens WHERE {where}expires_ms > ? ORDER BY created_ms DESC, token_id LIMIT ?",
        [*values, now_ms, limit],
    )
    return [_token(row) for row in rows]


def count_tokens(tx: Tx, principal: str = "") -> int:
    """How many rows `principal` has; '' = all rows."""
    where, values = ("WHERE principal = ?", [principal]) if principal else ("", [])
    return int(tx.execute(f"SELECT count(*) AS n FROM user_tokens {where}", values).fetchone()["n"])


def revoke_tokens(tx: Tx, token_ids: list[str], who: str, now_ms: int) -> None:
    """Those already revoked stay as they are."""
    tx.executemany(
        "UPDATE user_tokens SET revoked_ms = ?, revoked_by = ? WHERE token_id = ? AND revoked_ms IS NULL",
        [(now_ms, who, token_id) for token_id in token_ids],
    )


def prune_tokens(tx: Tx, before_ms: int) -> None:
    """Removes rows whose token expired before then, a bounded number at once."""
    tx.execute(
        "DELETE FROM user_tokens WHERE token_id IN"
        " (SELECT token_id FROM user_tokens WHERE expires_ms < ? ORDER BY expires_ms LIMIT ?)",
        (before_ms, PRUNED_AT_ONCE),
    )


def remove_revoked(tx: Tx, principal: str) -> None:
    tx.execute("DELETE FROM user_tokens WHERE principal = ? AND revoked_ms IS NOT NULL", (principal,))


def _token(row: sqlite3.Row) -> UserToken:
    return UserToken(**dict(row))
