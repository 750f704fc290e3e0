"""What a controller logs as an error while it lives is something that went wrong."""

from collections.abc import Callable, MutableMapping
from typing import Any

import structlog

from tests.simulation.world import running_as

Listener = Callable[[str], None]
ERROR_LEVEL = 40


def listen_for_errors(listener: Listener) -> None:
    """From now on nothing is printed, and `listener` is told of each error of living code, in one line."""

    def record(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        life = running_as.get()
        if life is None or not life.dead:
            listener(_one_line(event))
        raise structlog.DropEvent

    structlog.configure(
        processors=[record],
        wrapper_class=structlog.make_filtering_bound_logger(ERROR_LEVEL),
        cache_logger_on_first_use=False,
    )


def _one_line(event: MutableMapping[str, Any]) -> str:
    error = event.pop("exc_info", None)
    place = ""
    if isinstance(error, BaseException) and error.__traceback__ is not None:
        last = error.__traceback__
        while last.tb_next is not None:
            last = last.tb_next
        place = f" at {last.tb_frame.f_code.co_filename.rpartition('/')[2]}:{last.tb_lineno}"
    shown = " ".join(f"{key}={value}" for key, value in event.items() if key != "event")
    return f"{event.get('event')} {shown} {error!r}{place}"
