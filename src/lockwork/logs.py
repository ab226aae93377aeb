"""Loggers of Lockwork; a failing handler never breaks the code that logs."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from collections.abc import MutableMapping
from typing import Any, ClassVar

from lockwork.tracebacks import LOGGED, LOGGED_TEXT, bounded, is_long


def _limit(record: logging.LogRecord) -> bool:
    """Bound the traceback of an error with a long text, for all handlers: formatters use the record's own text."""
    error = record.exc_info[1] if record.exc_info else None
    with contextlib.suppress(Exception):  # the error's own code may raise anything
        if error is not None and record.exc_info and not record.exc_text and is_long(error, LOGGED_TEXT):
            record.exc_text = bounded(error, record.exc_info[2], text=LOGGED_TEXT, total=LOGGED).rstrip("\n")
    return True


class Log(logging.LoggerAdapter[logging.Logger]):
    """A named logger, which the app configures like any other. Errors of its handlers and filters are not raised."""

    stays_enabled: ClassVar[bool] = False
    """True to undo `disable_existing_loggers` of a logging configuration. Worker processes set it."""

    def __init__(self, name: str) -> None:
        logger = logging.getLogger(name)
        logger.addFilter(_limit)
        super().__init__(logger)

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a message; all other methods call this."""
        if self.stays_enabled:
            self.logger.disabled = False
        try:
            super().log(level, msg, *args, stacklevel=2, **kwargs)  # the record names the caller, not this line
        except Exception:  # noqa: BLE001 - many messages are logged where nothing could handle an error
            if logging.raiseExceptions and sys.stderr is not None:  # like logging's own handlers
                with contextlib.suppress(Exception):
                    traceback.print_exc()

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        """Keep `extra`, which an adapter replaces before Python 3.13."""
        return msg, kwargs
