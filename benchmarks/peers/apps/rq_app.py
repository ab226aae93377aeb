"""RQ's jobs. Those of a killed worker are found by the others as abandoned, and fail unless they have retries."""

from __future__ import annotations

import os
from collections.abc import Sequence

import redis
from rq import Queue

from benchmarks.peers.jobs import BLOCKING

queue = Queue(connection=redis.Redis.from_url(os.environ["PEER_REDIS"]))


def enqueue(kind: str, times: Sequence[float]) -> None:
    """Enqueue jobs."""
    if len(times) == 1:
        queue.enqueue_call(BLOCKING[kind], (times[0],), result_ttl=0)
    else:
        queue.enqueue_many([Queue.prepare_data(BLOCKING[kind], (due,), result_ttl=0) for due in times])
