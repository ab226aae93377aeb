"""Taskiq's jobs in a Redis stream, acknowledged after they have run: a killed worker loses none."""

from __future__ import annotations

import os
from collections.abc import Sequence

from taskiq_redis import RedisStreamBroker

from benchmarks.peers.jobs import ASYNC, BLOCKING

broker = RedisStreamBroker(os.environ["PEER_REDIS"], consumer_id="0")
tasks = {
    "noop": broker.task(task_name="noop")(ASYNC["noop"]),
    "io": broker.task(task_name="io")(ASYNC["io"]),
    "cpu": broker.task(task_name="cpu")(BLOCKING["cpu"]),
}
_started: list[RedisStreamBroker] = []


async def enqueue(kind: str, times: Sequence[float]) -> None:
    """Enqueue jobs."""
    if not _started:
        await broker.startup()
        _started.append(broker)
    for due in times:
        await tasks[kind].kiq(due)
