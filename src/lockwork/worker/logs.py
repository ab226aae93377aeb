"""Logging of the worker's processes; the library itself never configures logging."""

from __future__ import annotations

import logging
import sys


def configure() -> None:
    """Log to standard error, one line a record, unless the app configured logging already."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s [%(process)d] %(name)s: %(message)s",
    )
