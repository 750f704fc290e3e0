"""A task's own token: `irisfed_task_<attempt uid>_<MAC>`. It counts while the attempt lives.

Nothing is stored for it: the MAC proves that this controller made it, the database that the attempt runs.
"""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

PREFIX = "irisfed_task_"
KEY_FILE = "task-token.key"
_KEY_BYTES = 32


class TaskTokens:
    """`key` stays with the controller's state; whoever has it can speak for any task."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def mint(self, attempt_uid: str) -> str:
        return f"{PREFIX}{attempt_uid}_{self._mac(attempt_uid)}"

    def attempt_of(self, token: str) -> str | None:
        """The attempt's uid; None when this is no token of ours."""
        uid, _, mac = token.removeprefix(PREFIX).rpartition("_")
        genuine = token.startswith(PREFIX) and hmac.compare_digest(mac.encode(), self._mac(uid).encode())
        return uid if genuine else None

    def _mac(self, attempt_uid: str) -> str:
        return hmac.new(self._key, attempt_uid.encode(), hashlib.sha256).hexdigest()[:40]


def ensure_task_key(state_dir: Path) -> bytes:
    """Made at the first start, readable by its owner only (0600)."""
    path = state_dir / KEY_FILE
    if path.exists() and len(key := path.read_bytes()) == _KEY_BYTES:
        return key
    key = secrets.token_bytes(_KEY_BYTES)
    draft = path.with_suffix(".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
        os.fsync(file.fileno())
    os.replace(draft, path)
    return key
