"""SAQ's jobs. Those of a killed worker run again if they have retries left, after a sweep."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from saq import Queue

from benchmarks.peers.jobs import ASYNC

queue = Queue.from_url(os.environ["PEER_REDIS"])


async def noop(_context: dict[str, Any], *, due: float) -> None:
    """Do nothing."""
    await ASYNC["noop"](due)


async def io(_context: dict[str, Any], *, due: float) -> None:
    """Wait."""
    await ASYNC["io"](due)


async def cpu(_context: dict[str, Any], *, due: float) -> None:
    """Compute."""
    await ASYNC["cpu"](due)


settings = {"queue": queue, "functions": [noop, io, cpu], "concurrency": 100}


async def enqueue(kind: str, times: Sequence[float]) -> None:
    """Enqueue jobs."""
    for due in times:
        await queue.enqueue(kind, due=due, ttl=-1)
