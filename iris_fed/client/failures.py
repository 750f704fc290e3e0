"""From what the transport raises to the tree of `iris_fed.errors`, and how long to bear with it."""

import asyncio

from connectrpc.code import Code
from connectrpc.errors import ConnectError

from iris_fed import errors
from iris_fed.rpc.foreign import ForeignAnswer, answered_404
from iris_fed.rpc.unreachable import why_unreachable

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 3.0
GIVE_UP_AFTER_S = 60.0
"""A controller that is being restarted or updated is back within this."""

_BY_CODE: dict[str, type[errors.IrisFedError]] = {
    kind.code.value: kind
    for kind in (
        errors.InvalidArgument,
        errors.OutOfRange,
        errors.NotFound,
        errors.AlreadyExists,
        errors.FailedPrecondition,
        errors.PermissionDenied,
        errors.Unauthenticated,
        errors.ResourceExhausted,
        errors.Aborted,
        errors.Unavailable,
        errors.DeadlineExceeded,
        errors.Unimplemented,
    )
}


def translate(error: ConnectError, address: str) -> errors.IrisFedError:
    """The user's error for a failed call to the controller at `address` (a URL)."""
    if answered_404(error):
        return errors.Unimplemented(f"the controller at {address} does not offer this call")
    if error.code is Code.UNAVAILABLE and error.__cause__ is not None:
        return errors.Unavailable(f"cannot reach the controller at {address}: {why_unreachable(error)}")
    if error.code is Code.DEADLINE_EXCEEDED:
        return errors.DeadlineExceeded(f"the controller at {address} did not answer in time")
    kind = _BY_CODE.get(error.code.value)
    if kind is None:
        return errors.Unavailable(f"the controller at {address} failed ({error.code.value}): {error.message}")
    return kind(error.message or f"the controller answered {error.code.value}")


def passes(error: ConnectError) -> bool:
    """Whether the same read may succeed if asked again: nobody answered, or the answer broke off.

    CANCELED comes from a controller that was stopped: a caller's own cancellation is no ConnectError.
    """
    broke_off = error.code is Code.CANCELED or (error.code is Code.INTERNAL and "unexpected EOF" in error.message)
    return broke_off or (error.code is Code.UNAVAILABLE and not isinstance(error.__cause__, ForeignAnswer))


class Patience:
    """How long a caller goes on asking: pauses grow from 0.1 s to 3 s, and a first success starts over.

    Raises the last error, translated, once failures have gone on for `give_up_after_s`.
    """

    def __init__(self, address: str, give_up_after_s: float = GIVE_UP_AFTER_S) -> None:
        self._address = address
        self._give_up_after_s = give_up_after_s
        self._failing_since: float | None = None
        self._pause_s = FIRST_PAUSE_S

    def succeeded(self) -> None:
        self._failing_since = None
        self._pause_s = FIRST_PAUSE_S

    async def after(self, error: ConnectError) -> None:
        """Wait before the next try."""
        now = asyncio.get_running_loop().time()
        if self._failing_since is None:
            self._failing_since = now
        temporary = passes(error) or error.code is Code.DEADLINE_EXCEEDED
        if not temporary or now - self._failing_since >= self._give_up_after_s:
            raise translate(error, self._address) from error
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
