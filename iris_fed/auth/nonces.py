"""Nonces of handoffs: `<random>.<MAC>` (design, "Names").

The MAC lets a parent recognise an incarnation that it minted even after it lost its database.
"""

import hashlib
import hmac


class NonceMint:
    """`key` is a secret of its own, never rotated; at least 16 bytes."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def mint(self, random_part: str, peer: str, remote_job_id: str) -> str:
        """`random_part` is fresh hex."""
        return f"{random_part}.{self._mac(random_part, peer, remote_job_id)}"

    def minted(self, nonce: str, peer: str, remote_job_id: str) -> bool:
        """Whether this cluster made `nonce` for that job on that peer."""
        random_part, dot, mac = nonce.partition(".")
        return bool(dot) and hmac.compare_digest(mac.encode(), self._mac(random_part, peer, remote_job_id).encode())

    def minted_for(self, peer: str, nonce: str, remote_job_id: str) -> bool:
        """The same, the peer first."""
        return self.minted(nonce, peer, remote_job_id)

    def _mac(self, random_part: str, peer: str, remote_job_id: str) -> str:
        # NUL separates: none of the parts can hold one.
        message = "\0".join((random_part, peer, remote_job_id)).encode()
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()[:32]
