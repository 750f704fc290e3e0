"""The one tree of errors that a user may see.

Each carries a machine-readable code (the names are Connect's, so that the edge translates them in
one table) and one sentence that says what is wrong and, where there is something to do, what.
"""

from enum import StrEnum


class Code(StrEnum):
    """Why a request was not done, in Connect's words (https://connectrpc.com/docs/protocol#error-codes)."""

    INVALID_ARGUMENT = "invalid_argument"
    OUT_OF_RANGE = "out_of_range"
    NOT_FOUND = "not_found"
    ALREADY_EXISTS = "already_exists"
    FAILED_PRECONDITION = "failed_precondition"
    PERMISSION_DENIED = "permission_denied"
    UNAUTHENTICATED = "unauthenticated"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    ABORTED = "aborted"
    UNAVAILABLE = "unavailable"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    UNIMPLEMENTED = "unimplemented"


class IrisFedError(Exception):
    """A request was refused. `message` is one sentence for the person who asked."""

    code: Code = Code.FAILED_PRECONDITION

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidArgument(IrisFedError):
    """The request itself is wrong. `field` is the wire name of what is wrong, where there is one."""

    code = Code.INVALID_ARGUMENT

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field


class OutOfRange(IrisFedError):
    code = Code.OUT_OF_RANGE


class NotFound(IrisFedError):
    code = Code.NOT_FOUND


class AlreadyExists(IrisFedError):
    code = Code.ALREADY_EXISTS


class FailedPrecondition(IrisFedError):
    code = Code.FAILED_PRECONDITION


class PermissionDenied(IrisFedError):
    code = Code.PERMISSION_DENIED


class Unauthenticated(IrisFedError):
    code = Code.UNAUTHENTICATED


class ResourceExhausted(IrisFedError):
    code = Code.RESOURCE_EXHAUSTED


class Aborted(IrisFedError):
    """Something is in the way that will pass; the same request may succeed later."""

    code = Code.ABORTED


class Unavailable(IrisFedError):
    code = Code.UNAVAILABLE


class DeadlineExceeded(IrisFedError):
    code = Code.DEADLINE_EXCEEDED


class Unimplemented(IrisFedError):
    code = Code.UNIMPLEMENTED


class ConfigError(IrisFedError):
    """The configuration, or the machine it describes, does not allow the start."""

    code = Code.FAILED_PRECONDITION


class IllegalTransition(Exception):
    """A state change that the transition table does not hold: a defect of ours, never a user's."""

    def __init__(self, subject: str, before: str, after: str, history: str = "") -> None:
        super().__init__(f"{subject}: {before} -> {after} is no transition{'; ' + history if history else ''}")
        self.subject = subject
        self.before = before
        self.after = after
