"""What happens that is worth counting, said in words of this system to whoever counts.

The rooms below the edge speak to `Meters` and know nothing of how, or whether, it is counted.
"""


class Meters:
    """Counts nothing. Durations are in seconds; a `peer` or `requester` is a configured cluster's name."""

    def committed(self, seconds: float, writes: int) -> None:
        """A transaction with so many writes in it is durable."""

    def called(self, method: str, code: str, seconds: float) -> None:
        """An RPC was answered; `code` is Connect's word, `ok` without an error."""

    def handed_off(self, peer: str, seconds: float) -> None:
        """A peer has taken a job, so long after it was submitted here."""

    def refused(self, peer: str, code: str) -> None:
        """A peer will not take a job."""

    def redriven(self, peer: str) -> None:
        """A delivery left that is not the first of its handle."""

    def call_failed(self, peer: str, call: str) -> None:
        """A call to a peer (`heartbeat`, `sync`, `deliver`, `cancel`) brought no answer that can be used."""

    def duplicate_suppressed(self, requester: str) -> None:
        """A handoff arrived again that was known already."""

    def admitted(self, requester: str) -> None:
        """A handoff was taken."""

    def declined(self, requester: str, code: str) -> None:
        """A handoff was not taken."""
