"""How long to wait before trying again."""


def backoff_ms(tries: int, base_ms: int, max_ms: int, jitter: float) -> int:
    """Doubling from `base_ms` at the first try up to `max_ms`, of which the last half is spread by
    `jitter` in [0, 1) so that many who failed together do not come back together."""
    full = min(max_ms, base_ms * 2 ** min(max(tries, 1) - 1, 30))
    return int(full / 2 + full / 2 * jitter)
