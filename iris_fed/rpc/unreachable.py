"""Why no controller answered, in a few words for a person."""

from connectrpc.errors import ConnectError

from iris_fed.auth.edge_sources import EdgeTokenUnavailable
from iris_fed.rpc.foreign import ForeignAnswer

_KNOWN_CAUSES = (
    ("connection refused", "connection refused; is it running?"),
    ("dns error", "the host name is not known"),
    ("certificate", "its TLS certificate is not trusted"),
    ("corrupt message", "it does not speak TLS; is it http:// rather than https://?"),
    ("timed out", "no answer; the network may be down"),
    ("connection reset", "the connection was cut"),
    ("connection closed", "the connection was cut"),
    ("network is unreachable", "the network is unreachable"),
    ("no route to host", "there is no route to the host"),
)
_REFUSALS = frozenset({401, 403, 407})
_LOGINS = frozenset({301, 302, 303, 307, 308})


def why_unreachable(error: ConnectError) -> str:
    """A short reason, without the transport's own layers of wording."""
    if isinstance(error.__cause__, EdgeTokenUnavailable):
        return f"no edge token for what stands in front of it: {error.message}"
    if isinstance(error.__cause__, ForeignAnswer):
        return _foreign(error.__cause__)
    lowered = error.message.lower()
    for mark, reason in _KNOWN_CAUSES:
        if mark in lowered:
            return reason
    return error.message.rpartition(": ")[2][:200] or "the connection failed"


def never_left(error: ConnectError) -> bool:
    """Whether it is certain that the request reached nobody: no connection was made for it."""
    if isinstance(error.__cause__, EdgeTokenUnavailable):
        return True
    return "(Connect)" in error.message and not isinstance(error.__cause__, ForeignAnswer)


def _foreign(answer: ForeignAnswer) -> str:
    said = f": {answer.said}" if answer.said else ""
    if answer.status in _REFUSALS:
        return f"something in front of the controller refused: HTTP {answer.status}{said}"
    if answer.status in _LOGINS:
        return f"something in front of the controller sends elsewhere (to log in?): HTTP {answer.status}"
    return f"something else answers there ({answer})"
