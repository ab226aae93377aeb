"""Logging of the worker's processes; the library itself never configures logging."""

from __future__ import annotations

import logging
import sys

AGAIN = 5.0
"""Seconds between two complaints about one trouble that lasts."""


def configure() -> None:
    """Log to standard error, one line a record, unless the app configured logging already."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s [%(process)d] %(name)s: %(message)s",
    )
