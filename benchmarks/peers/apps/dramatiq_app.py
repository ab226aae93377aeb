"""Dramatiq's jobs, acknowledged after they have run: a killed worker loses none."""

from __future__ import annotations

import os
from collections.abc import Sequence

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.peers.jobs import BLOCKING

broker = RedisBroker(url=os.environ["PEER_REDIS"])
dramatiq.set_broker(broker)
actors = {kind: dramatiq.actor(job, actor_name=kind, broker=broker) for kind, job in BLOCKING.items()}


def enqueue(kind: str, times: Sequence[float]) -> None:
    """Enqueue jobs."""
    for due in times:
        actors[kind].send(due)
