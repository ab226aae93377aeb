"""How long a failed job waits before its next attempt."""

from __future__ import annotations

import random

LONGEST = 3600.0


def delay(attempt: int, base: float) -> float:
    """Seconds before the attempt after number `attempt` (from 1): doubles from `base` up to an hour, half of it jitter.

    Jitter spreads jobs that failed together ("equal jitter", AWS Architecture Blog, "Exponential Backoff And Jitter").
    """
    full = min(LONGEST, base * 2.0 ** min(attempt - 1, 30))
    return full / 2 + random.uniform(0, full / 2)  # noqa: S311 - spreads load, hides nothing
