"""A worker's Prometheus metrics, without a worker: queues with errors, and an unavailable server."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import cast

import redis

from lockwork import Lockwork
from lockwork.protocol.keys import QueueKeys
from lockwork.worker.monitoring.metrics import Metrics
from lockwork.worker.supervisor.status import WorkerStatus
from lockwork.worker.supervisor.task_times import TaskTimes
from ports import free_port
from scraping import parsed


def _metrics(app: Lockwork) -> dict[str, float]:
    nothing: Counter[str] = Counter()
    state = {
        "trouble": "",
        "silence": 0.0,
        "replaced": nothing,
        "runners_replaced": nothing,
        "memory": list,
        "loads": list,
        "times": TaskTimes(),
    }
    return parsed(Metrics(app, "abc", cast("WorkerStatus", SimpleNamespace(**state)), 15).text())


def test_failing_queue_does_not_hide_other_queues(lw: Lockwork, admin: redis.Redis) -> None:
    """All queues looked unavailable."""
    refuses = QueueKeys("lw", "a").stats
    admin.set(refuses, "somebody else's")
    lw.task(name="work", queue="b")(lambda: None).enqueue()
    metrics = _metrics(lw)
    assert metrics["server_up"] == 1
    assert (metrics['jobs{queue="b",state="ready"}'], metrics['jobs{queue="c",state="ready"}']) == (1, 0)
    assert not [name for name in metrics if 'queue="a"' in name]
    admin.flushall()


def test_unavailable_server_is_reported_as_down() -> None:
    with Lockwork(f"redis://127.0.0.1:{free_port()}", patience=0) as app:
        metrics = _metrics(app)
    assert metrics["server_up"] == 0
    assert not [name for name in metrics if "queue=" in name]
