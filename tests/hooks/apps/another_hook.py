"""The app `observed` with another hook, which the variable HOOK selects."""

from __future__ import annotations

import asyncio
import os

from observed import lw  # type: ignore[import-not-found]  # beside it, when a worker runs it

from lockwork.hooks import Died, Failed
from notes import record


async def slow(event: Failed) -> None:
    await asyncio.sleep(0.4)
    record("slow", id=event.id, attempt=event.attempt)


def fatal(event: Died) -> None:
    record("fatal", id=event.id)
    os._exit(9)


if os.environ["HOOK"] == "slow":
    lw.hooks.failure(slow)
else:
    lw.hooks.dead(fatal)
