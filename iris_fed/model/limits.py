"""Every bound on what a request, a name, an answer or a peer's words may be, in one place.

`Limits` holds those that an operator may set; the constants are fixed because both sides of a
protocol, or a column, depend on them. Sizes are in bytes, times in milliseconds.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """`limits.*` of the configuration, which documents them."""

    request_bytes: int = 4_194_304
    page_size: int = 1_000
    replicas: int = 10_000
    argv_bytes: int = 131_072
    env_bytes: int = 131_072
    log_page_bytes: int = 1_048_576
    bundle_bytes: int = 67_108_864


DAY_MS = 86_400_000
REPLAY_WINDOW_MS = 30 * DAY_MS
"""How long a handle outlives its job, so that no late message finds a blank page."""

MAX_DURATION_MS = 366 * DAY_MS
MAX_CPU_MILLICORES = 10_000_000
MAX_MEMORY_BYTES = 2**50
MAX_DISK_BYTES = 2**50
MAX_DEVICE_COUNT = 1_024
MAX_RETRIES = 1_000
MAX_CONSTRAINTS = 64
MAX_CONSTRAINT_VALUES = 64
MAX_KEY_CHARS = 128
MAX_VALUE_CHARS = 1_024
MAX_PORTS = 64
MAX_SETUP_STEPS = 64
MAX_WORKDIR_FILES = 1_000
MAX_SECRET_FILES = 64
MAX_SUBMIT_ARGV = 4_096
MAX_ATTRIBUTES = 256

MAX_ERROR_CHARS = 4_096
"""Of an error or reason that a peer or an engine wrote; what is longer is cut."""
MAX_TASKS_SHOWN = 100_000
MAX_ATTEMPTS_SHOWN = 1_000
"""Attempts of one task that a mirror keeps, the latest ones."""
MAX_EVENTS_SHOWN = 1_000
"""The newest of a job's events that are told; a job of many tasks has more."""
MAX_EPOCH_MS = 2**53
MAX_BACKENDS_SHOWN = 256
MAX_DELTAS_ACCEPTED = 100_000
MAX_CURSOR_CHARS = 512
MAX_NONCE_CHARS = 256
MAX_DATABASE_ID_CHARS = 128
MAX_LONG_POLL_MS = 120_000
"""A longer `wait_ms` is served as this one."""
