"""Celery's jobs, acknowledged after they have run: a killed worker loses none, they run again after an hour."""

from __future__ import annotations

import os
from collections.abc import Sequence

from celery import Celery

from benchmarks.peers.jobs import BLOCKING

app = Celery("peers", broker=os.environ["PEER_REDIS"])
app.conf.update(task_acks_late=True, task_ignore_result=True, worker_prefetch_multiplier=100)
tasks = {kind: app.task(name=kind)(job) for kind, job in BLOCKING.items()}


def enqueue(kind: str, times: Sequence[float]) -> None:
    """Enqueue jobs."""
    for due in times:
        tasks[kind].delay(due)
