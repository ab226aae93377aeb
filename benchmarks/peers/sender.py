"""`python -m benchmarks.peers.sender MODULE KIND JOBS [RATE]`: enqueues jobs at once, or at RATE a second on average.

The times between jobs are exponential, as of independent users. A sender that falls behind enqueues all that are due.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module

Enqueue = Callable[[str, Sequence[float]], Awaitable[None] | None]
_BATCH = 500


async def _send(enqueue: Enqueue, kind: str, times: Sequence[float]) -> None:
    made = enqueue(kind, times)
    if inspect.isawaitable(made):
        await made


async def main(module: str, kind: str, jobs: int, rate: float) -> None:
    """Enqueue the jobs."""
    enqueue: Enqueue = import_module(f"benchmarks.peers.apps.{module}").enqueue
    if not rate:
        now = time.time()
        for start in range(0, jobs, _BATCH):
            await _send(enqueue, kind, [now] * min(_BATCH, jobs - start))
        return
    draw = random.Random(1)
    due = time.time()
    times = [due := due + draw.expovariate(rate) for _ in range(jobs)]
    sent = 0
    while sent < jobs:
        now, begin = time.time(), sent
        while sent < jobs and times[sent] <= now:
            sent += 1
        if sent > begin:
            await _send(enqueue, kind, times[begin:sent])
        else:
            await asyncio.sleep(max(times[sent] - now, 0))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]) if len(sys.argv) > 4 else 0))
