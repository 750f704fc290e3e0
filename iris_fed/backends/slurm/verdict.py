"""How an attempt ended, out of what it left and what Slurm says. Pure."""

import signal
from dataclasses import dataclass, replace

from iris_fed.backends.base import AttemptEnd, Ended, EndKind
from iris_fed.backends.slurm.words import ACTIVE_STATES, END_STATES, NORMAL_ENDS, RUNNING_STATES

TOLD = "TOLD"
"""Kind of a result whose attempt was told to end by Slurm: why, only Slurm, or our own kill, can say."""
CAUSE_PATIENCE_S = 10.0
"""How long Slurm may take to say why it ended an attempt of which the result is there."""
SETTLE_S = 2.0
"""A result may become visible this long after Slurm has ended the job: file systems tell late."""


@dataclass(frozen=True, slots=True)
class Found:
    """What there is to judge by.

    `result`: its own `exit.json`, None = none is there; `told`: it was told to end. `cancelled`: by us. `began`:
    it was started. `state`: Slurm's word, '' = Slurm does not know it. `for_s`: seconds since it was first seen
    to be over. `wait_s`: how long an attempt is looked for that left nothing. `accounted`: the accounting was
    asked, or there is none. `words`: what the job itself said.
    """

    result: Ended | None = None
    told: bool = False
    cancelled: bool = False
    began: bool = False
    state: str = ""
    for_s: float = 0.0
    wait_s: float = 60.0
    accounted: bool = True
    words: str = ""


def judge(found: Found) -> AttemptEnd | None:
    """None = it is not over, or nobody can say yet."""
    if found.result is not None:
        return _of_result(found, found.result.end)
    if found.state in ACTIVE_STATES:
        return None
    if found.cancelled and (not found.began or found.for_s >= SETTLE_S):
        return AttemptEnd(EndKind.KILLED, message="killed on request")
    if not found.state:
        return _of_unknown(found)
    kind, words = END_STATES.get(found.state, (EndKind.LOST, f"has ended in Slurm as {found.state}"))
    patience_s = found.wait_s if found.state in NORMAL_ENDS else SETTLE_S
    if found.for_s < patience_s:
        return None
    return AttemptEnd(kind, message=words + _said(found, found.state in NORMAL_ENDS))


def _of_result(found: Found, end: AttemptEnd) -> AttemptEnd | None:
    """What it says itself counts, unless somebody made it end so."""
    if not _has_a_cause(found, end):
        return end
    if found.cancelled:
        return replace(end, kind=EndKind.KILLED, message="killed on request")
    if found.state in END_STATES and found.state not in NORMAL_ENDS:
        kind, words = END_STATES[found.state]
        return replace(end, kind=kind, message=words)
    may_say_more = found.state == "COMPLETING" or found.told or not found.accounted
    if may_say_more and found.state not in NORMAL_ENDS and found.for_s < CAUSE_PATIENCE_S:
        return None
    if found.told:
        return replace(end, kind=EndKind.CANCELLED, message=f"{END_STATES['CANCELLED'][1]} (it was told to end)")
    if found.state in RUNNING_STATES and found.for_s < SETTLE_S:
        return None
    return end


def _has_a_cause(found: Found, end: AttemptEnd) -> bool:
    """Whether somebody else may have ended it."""
    if end.kind.value in (EndKind.NOT_STARTED.value, EndKind.TIMED_OUT.value, EndKind.OUT_OF_MEMORY.value):
        return False
    if end.kind is EndKind.EXITED:
        return found.told and end.exit_code != 0
    return found.told or end.kind is EndKind.LOST or end.signal in (signal.SIGTERM, signal.SIGKILL)


def _of_unknown(found: Found) -> AttemptEnd | None:
    if found.for_s < found.wait_s or not found.accounted:
        return None
    words = "was lost: Slurm does not know it and it left no result"
    return AttemptEnd(EndKind.LOST, message=words + _said(found, True))


def _said(found: Found, matters: bool) -> str:
    return f"; its job said: {found.words}" if matters and found.words else ""
