"""Tokens whose signature was found right, so that it is not computed again for each request."""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

MOST = 1_024


class VerifiedTokens:
    """Claims by the hash of their token, until they expire; the one used longest ago gives way."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._claims: OrderedDict[bytes, tuple[float, Mapping[str, Any]]] = OrderedDict()

    def get(self, token: str, now_s: float) -> Mapping[str, Any] | None:
        name = _name(token)
        until_s, claims = self._claims.get(name, (0.0, None))
        if claims is None or until_s <= now_s:
            self._claims.pop(name, None)
            return None
        self._claims.move_to_end(name)
        return claims

    def put(self, token: str, claims: Mapping[str, Any], until_s: float) -> None:
        """`until_s`: epoch seconds."""
        self._claims[_name(token)] = (until_s, claims)
        while len(self._claims) > self._most:
            self._claims.popitem(last=False)


def _name(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
