"""Turns address space randomisation off, since the order in which a set is walked may follow from addresses."""

import ctypes
import os
import sys

WORKER = "--worker"
ADDR_NO_RANDOMIZE = 0x0040000
ASK_ONLY = 0xFFFFFFFF


def fix_addresses() -> None:
    """Re-executes this worker unless addresses are fixed already (personality(2)). Where the kernel
    forbids it nothing happens, and traces may differ between two runs."""
    personality = ctypes.CDLL(None).personality
    present = personality(ASK_ONLY)
    if present & ADDR_NO_RANDOMIZE or personality(present | ADDR_NO_RANDOMIZE) < 0:
        return
    if personality(ASK_ONLY) & ADDR_NO_RANDOMIZE:
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", WORKER])
