"""When a parent asks a peer for a full set instead of the news since its cursor (design, "Sync")."""

from dataclasses import dataclass

AGAIN_S = 60.0
"""Doubles while full sets do not settle what they were asked for."""
EVERY_S = 3_600.0
"""From a peer without our extensions, whose replaced database shows in nothing else; and the longest pause."""
MISSING_ASKS = 4
"""Full sets asked for within the grace after which a missing job is lost."""
MAX_REFUSALS = 3
"""So often in a row a cursor may be refused before everything is asked for, and no more in a hurry."""
NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Heard:
    """What an answer came to. `unsettled`: rows were passed over, or news is overdue. `missing`: a job
    handed off was not in the last full set. `ends_full_set`: it was the last page of one. `another`: it comes
    from another database than the answers before, its cursor went back, or it left open
    what it speaks of. `plain`: the peer is without our extensions."""

    unsettled: bool
    missing: bool
    in_full_set: bool
    ends_full_set: bool
    another: bool
    plain: bool


@dataclass(slots=True)
class FullSetTimer:
    """Times in seconds of one clock that never goes back. `due`: when everything is to be asked for."""

    lost_after_s: float
    due: float = NEVER
    last: float = -NEVER
    unsettled_sets: int = 0
    refusals: int = 0

    def wait_s(self, now: float, longest_s: float) -> float:
        """How long an answer may be held before a full set is due."""
        return min(longest_s, max(0.0, self.due - now))

    def on_interruption(self, now: float, *, plain: bool) -> None:
        """What a peer without our extensions did meanwhile only a full set tells."""
        if plain:
            self.due = min(self.due, now)

    def on_cursor(self, now: float, *, refused: bool) -> None:
        """The peer took our cursor, or did not: it may be one of another program's."""
        self.refusals = self.refusals + 1 if refused else 0
        if self.refusals >= MAX_REFUSALS:
            self.due = min(self.due, now)

    @property
    def hurried(self) -> bool:
        return self.refusals < MAX_REFUSALS

    def on_answer(self, now: float, heard: Heard) -> None:
        """An answer was applied."""
        if heard.ends_full_set:
            self.last, self.due = now, NEVER
            self.unsettled_sets = self.unsettled_sets + 1 if heard.unsettled else 0
        if heard.another and not heard.in_full_set:
            self.due = now
        if heard.missing:
            self.due = min(self.due, self.last + self.lost_after_s / MISSING_ASKS)
        if heard.unsettled:
            pause_s = min(EVERY_S, AGAIN_S * 2.0 ** min(max(0, self.unsettled_sets - 1), 10))
            self.due = min(self.due, max(now, self.last + pause_s))
        if heard.plain:
            self.due = min(self.due, self.last + EVERY_S)


def went_back(sent: str, next_cursor: str) -> bool:
    """Cursors of a peer without our extensions are plain numbers that only grow."""
    return sent.isdecimal() and next_cursor.isdecimal() and int(next_cursor) < int(sent)
