"""Jobs of streaQ in Redis streams. Those of a killed worker run again after the idle time-out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack

from streaq import Worker

from benchmarks.peers.jobs import ASYNC

worker: Worker[None] = Worker(redis_url=os.environ["PEER_REDIS"], concurrency=100)
tasks = {kind: worker.task(name=kind, ttl=0)(job) for kind, job in ASYNC.items()}
_stack = AsyncExitStack()
_entered: list[Worker[None]] = []


async def enqueue(kind: str, times: Sequence[float]) -> None:
    """Enqueue jobs."""
    if not _entered:
        _entered.append(await _stack.enter_async_context(worker))
    if len(times) == 1:
        await tasks[kind].enqueue(times[0])
    else:
        await worker.enqueue_many([tasks[kind].enqueue(due) for due in times])
