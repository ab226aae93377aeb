"""Our loggers: what we do does not depend on whether it can be logged."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from collections.abc import MutableMapping
from typing import Any, ClassVar


class Log(logging.LoggerAdapter[logging.Logger]):
    """The logger of that name, which the app configures as any other; no handler or filter of it makes us fail."""

    stays_enabled: ClassVar[bool] = False
    """Whether `disable_existing_loggers` of a logging configuration is undone: so it is in a worker's processes."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name))

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log it; every other method comes here."""
        if self.stays_enabled:
            self.logger.disabled = False
        try:
            super().log(level, msg, *args, stacklevel=2, **kwargs)  # the record names our caller, not this line
        except Exception:  # noqa: BLE001 - much of what we log is said where nobody is left to catch anything
            if logging.raiseExceptions and sys.stderr is not None:  # as logging's own handlers do
                with contextlib.suppress(Exception):
                    traceback.print_exc()

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        """Leave `extra` as it is: before Python 3.13 an adapter replaces it."""
        return msg, kwargs
