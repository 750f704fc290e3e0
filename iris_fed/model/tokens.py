"""What is kept of a user token: everything but the token itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UserToken:
    """Times in epoch milliseconds; `revoked_ms` None = it stands."""

    token_id: str
    principal: str
    role: str
    note: str
    created_by: str
    created_ms: int
    expires_ms: int
    revoked_ms: int | None = None
    revoked_by: str = ""
