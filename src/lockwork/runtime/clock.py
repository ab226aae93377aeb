"""The client's clock, and how long a call may take on it."""

from __future__ import annotations

import time

from lockwork.protocol.effects import Call

HEALTHY: float = 1.0
"""Seconds that a healthy server may need for a call, whatever the caller's patience."""
REPLICAS: float = 1.0
"""Seconds that replicas have to acknowledge a grant."""

if hasattr(time, "CLOCK_BOOTTIME"):

    def now() -> float:
        """Seconds since some point in the past; it measures durations, and goes on during suspend."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:
    now = time.monotonic


def limit(call: Call, patience: float) -> float:
    """Seconds that a call with this patience may take, all its tries together.

    A healthy server gets a second, unless the call is brief; replicas that the call waits for get their time on top.
    """
    usual = patience if call.brief else max(HEALTHY, patience)
    return usual + REPLICAS if call.replicas else usual
