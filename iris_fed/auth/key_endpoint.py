"""Where published keys are fetched from, over HTTP."""

from urllib.parse import urlsplit

import httpx

from iris_fed.auth.jwks import FETCH_S, KeysUnavailable

MAX_BYTES = 256 * 1024
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class KeyEndpoint:
    """Calling it gives the bytes at `url`. Follows no redirect; nothing is compressed, so that the bound on
    what is read is one on what it costs."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = httpx.AsyncClient(
            timeout=FETCH_S,
            follow_redirects=False,
            headers={"accept-encoding": "identity", "accept": "application/json"},
            trust_env=urlsplit(url).hostname not in _LOOPBACK,
        )

    async def __call__(self) -> bytes:
        """Raises KeysUnavailable."""
        body = bytearray()
        try:
            async with self._client.stream("GET", self._url) as answer:
                if answer.status_code != 200:
                    raise KeysUnavailable(f"the answer is HTTP {answer.status_code}")
                async for chunk in answer.aiter_raw():
                    body += chunk
                    if len(body) > MAX_BYTES:
                        raise KeysUnavailable(f"the answer is over {MAX_BYTES} bytes")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise KeysUnavailable(f"{type(error).__name__}: {error}") from error
        return bytes(body)

    async def close(self) -> None:
        await self._client.aclose()
