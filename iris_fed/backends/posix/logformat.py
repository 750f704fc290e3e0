"""How an attempt's output lies on disk. Standard library only: it runs beside the tasks.

Output is a run of segments, each a raw file `output.<start>` beside `output.<start>.times`, where
`start` is the offset of its first byte in the attempt's whole output. The first segment may grow
to half of the limit and stays for ever; after it come small ones, of which the oldest go. What is
missing between two segments was dropped. A times file holds records of two little-endian 64-bit
numbers: an offset at which a line starts, and the epoch milliseconds of its arrival.
"""

import os
import struct

TIME_RECORD = struct.Struct("<QQ")
TAIL_SEGMENTS = 8
BYTES_PER_TIME_RECORD = 64
"""A segment ends early rather than hold more time records than its size divided by this."""

_PREFIX = "output."
_TIMES = ".times"
_MAX_DIGITS = 18
"""What is longer, and would not fit into 64 bits, nobody but a task wrote."""


def segment_name(start: int) -> str:
    return f"{_PREFIX}{start}"


def times_name(start: int) -> str:
    return f"{_PREFIX}{start}{_TIMES}"


def segment_starts(folder: str) -> list[int]:
    """Offsets at which the segments in `folder` start, ascending; empty without a folder."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(int(name[len(_PREFIX) :]) for name in names if _is_segment(name))


def _is_segment(name: str) -> bool:
    start = name[len(_PREFIX) :]
    return name.startswith(_PREFIX) and start.isdecimal() and len(start) <= _MAX_DIGITS
