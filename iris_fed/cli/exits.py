"""What the command's exit codes mean; `job run` otherwise exits with the job's own code."""

USAGE = 2
CHECK_FAILED = 1
SOME_MISSING = 1
WAIT_TIMED_OUT = 124
CANNOT = 125
"""Refused, denied, unreachable, or the job ended without a code."""
INTERRUPTED = 130
PIPE_CLOSED = 141
TERMINATED = 143
