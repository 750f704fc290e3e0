"""Structured logs: one event a line to standard error, with the ids of what it is about.

Ids (`request`, `job`, `peer`, `task`) are bound for a stretch of work with `bound` and then stand
on every line of it.
"""

import logging
import re
import sys
from collections.abc import MutableMapping
from contextlib import AbstractContextManager
from typing import Any, TextIO

import structlog

MAX_VALUE_CHARS = 2_000
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_CONTROLS = {code: None for code in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if code not in (0x09, 0x0A)}
_DIRECTIONS = dict.fromkeys((8232, 8233, *range(8234, 8239), *range(8294, 8298)))
"""Line ends and turns of direction that would make a line read as another."""
_TOKENS = re.compile(r"(?i:\b(bearer\s+)[^\s\"',]+)|\beyJ[\w-]+\.[\w-]+\.[\w-]*")
"""What follows `Bearer`, and signed tokens wherever they stand."""


def configure_logging(level: str = "info", style: str = "console", stream: TextIO | None = None) -> None:
    """Set up logs for the whole process. `style` is `console` or `json`; `stream` None = stderr.

    What libraries log through the standard library comes out the same way, from WARNING on.
    """
    out = stream or sys.stderr
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _without_controls,
    ]
    structlog.configure(
        processors=[*shared, _renderer(style, out)],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _renderer(style, out)],
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=max(_LEVELS[level], logging.WARNING), force=True)


def get_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """A logger whose lines carry `module=name`. Event names are short and dotted: `peer.lost`."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(module=name)
    return logger


def bound(**ids: str) -> AbstractContextManager[None]:
    """Every line logged inside, by whatever module, carries these ids."""
    return structlog.contextvars.bound_contextvars(**ids)


def without_controls(text: str) -> str:
    """`text` without what a terminal would obey; tabs and line ends stay."""
    return text.translate(_CONTROLS)


def _without_controls(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Values may hold what a peer or a task wrote: no terminal controls, no tokens, and bounded."""
    for key, value in event.items():
        if isinstance(value, str):
            text = _TOKENS.sub(r"\1<token>", without_controls(value).translate(_DIRECTIONS))
            event[key] = text if key == "exception" else text[:MAX_VALUE_CHARS].replace("\n", "\\n")
    return event


def _renderer(style: str, out: TextIO) -> structlog.typing.Processor:
    if style == "json":
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback)
