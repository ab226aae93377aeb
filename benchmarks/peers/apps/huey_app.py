"""Huey's jobs. A killed worker loses those that it has begun."""

from __future__ import annotations

import os
from collections.abc import Sequence

from huey import RedisHuey

from benchmarks.peers.jobs import BLOCKING

app = RedisHuey("peers", url=os.environ["PEER_REDIS"], results=False)
tasks = {kind: app.task(name=kind)(job) for kind, job in BLOCKING.items()}


def enqueue(kind: str, times: Sequence[float]) -> None:
    """Enqueue jobs."""
    for due in times:
        tasks[kind](due)
