"""Our loggers: what we do does not depend on whether it can be logged."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from typing import Any


class Log(logging.LoggerAdapter[logging.Logger]):
    """The logger of that name, which the app configures as any other; no handler or filter of it makes us fail."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name))

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log it; every other method comes here."""
        try:
            super().log(level, msg, *args, stacklevel=2, **kwargs)  # the record names our caller, not this line
        except Exception:  # noqa: BLE001 - much of what we log is said where nobody is left to catch anything
            if logging.raiseExceptions and sys.stderr is not None:  # as logging's own handlers do
                with contextlib.suppress(Exception):
                    traceback.print_exc()
