"""Our errors -> Connect's, in one table."""

from connectrpc.code import Code as ConnectCode
from connectrpc.errors import ConnectError

from iris_fed.errors import Code, IrisFedError
from iris_fed.telemetry import get_logger

log = get_logger(__name__)

CODES: dict[Code, ConnectCode] = {code: ConnectCode(code.value) for code in Code}


def to_connect(error: IrisFedError) -> ConnectError:
    return ConnectError(CODES[error.code], error.message)


def to_internal(error: Exception, method: str) -> ConnectError:
    """A defect of ours: told to the log, not to the caller."""
    log.error("rpc.failed", method=method, exc_info=error)
    return ConnectError(ConnectCode.INTERNAL, "internal error; the controller's log says more")
