"""The client's clock, and the time limit of a call."""

from __future__ import annotations

import time

from lockwork.protocol.effects import Call

HEALTHY: float = 1.0
"""Seconds that a healthy server may need for a call, regardless of the caller's patience."""
REPLICAS: float = 1.0
"""Seconds for replicas to acknowledge a grant."""
REMEMBERED: float = 50.0
"""Seconds that a call that may have reached the server is retried, regardless of its patience.

Scripts recognize repeated calls from logs that last a minute. A later retry would repeat the effect.
"""

if hasattr(time, "CLOCK_BOOTTIME"):

    def now() -> float:
        """Return a monotonic time in seconds that measures durations, including system suspend."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:
    now = time.monotonic


def limit(call: Call, patience: float) -> float:
    """Return the seconds that a call with this patience may take, including all tries.

    A healthy server gets one second, unless the call is brief; waiting for replicas adds their limit.
    """
    usual = patience if call.brief else max(HEALTHY, patience)
    return usual + REPLICAS if call.replicas else usual
