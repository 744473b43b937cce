"""Structured logs on standard error, and the metrics registry."""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

import structlog

from detectsched.clock import monotonic
from detectsched.settings import LogFormat, LogSettings

_TRACES: Final = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
"""Traces without the values of variables, which structlog would show: keys and payloads do not belong into logs."""

_SPARING_SECONDS: Final = 1.0


def configure_logging(settings: LogSettings, component: str) -> None:
    """Send all logs, those of libraries included, to standard error in one form."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    console = settings.format is LogFormat.CONSOLE or (settings.format is LogFormat.AUTO and sys.stderr.isatty())
    last: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)]
        if console
        else [structlog.processors.ExceptionRenderer(_TRACES), structlog.processors.JSONRenderer(ensure_ascii=False)]
    )
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # Asked for at each line: whoever replaces standard error for a while must not leave us a closed file.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(component=component)
    handler = logging.StreamHandler(sys.stderr)
    foreign = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=foreign, foreign_pre_chain=shared))
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)


class Sparing:
    """Lets one line a second through: a dozen loops and thousands of requests of a process meet one outage."""

    def __init__(self) -> None:
        self._next = float("-inf")

    def lets(self) -> bool:
        """Whether a line may be written now; one that is kept back may be written when it comes up again."""
        now = monotonic()
        if now < self._next:
            return False
        self._next = now + _SPARING_SECONDS
        return True


AWAY: Final = Sparing()
"""The lines of this process that say that a store is away."""
BACK: Final = Sparing()
"""Those that say that one is back."""


def get_logger(name: str) -> Any:
    """Return a structured logger: ``log.info("event", key=value)``."""
    return structlog.get_logger(name)


def current_request_id() -> str | None:
    """Return the id of the request that is being answered, as it stands in every line of its log."""
    request_id = structlog.contextvars.get_contextvars().get("request_id")
    return None if request_id is None else str(request_id)
