"""Watches the disk of the state directory: when it is nearly full nothing new is started."""

import shutil
from pathlib import Path

FULL_BYTES = 1024 * 1024
"""With less than this a transaction may find no room."""


class DiskGuard:
    """`min_free` in bytes; 0 = never mind."""

    def __init__(self, folder: Path, min_free: int) -> None:
        self._folder = folder
        self._min_free = min_free

    def full(self) -> str:
        """A sentence when hardly anything can be written any more; '' = there is room."""
        free = shutil.disk_usage(self._folder).free
        if free >= FULL_BYTES:
            return ""
        return f"the disk of the state directory is full: {free >> 10} KiB free; jobs are refused until there is room"

    def refusal(self) -> str:
        """Why nothing may be started now; '' = nothing stands against it."""
        free = shutil.disk_usage(self._folder).free
        if free >= self._min_free:
            return ""
        return (
            f"nothing is started while this cluster's disk is nearly full: {free >> 20} MiB free, "
            f"{self._min_free >> 20} MiB needed (retention.min_free)"
        )
