"""The client's clock: it measures durations only, and goes on during suspend where the system allows."""

from __future__ import annotations

import time

if hasattr(time, "CLOCK_BOOTTIME"):

    def now() -> float:
        """Seconds since some point in the past."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:
    now = time.monotonic
