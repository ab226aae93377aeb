"""What a worker tells Prometheus, without a worker: queues that refuse, and a server that is away."""

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


def test_a_queue_that_refuses_leaves_the_others(lw: Lockwork, admin: redis.Redis) -> None:
    """All queues looked as if the server were away, whatever waited there."""
    refuses = QueueKeys("lw", "a").stats
    admin.set(refuses, "somebody else's")
    lw.task(name="work", queue="b")(lambda: None).enqueue()
    found = _metrics(lw)
    assert found["server_up"] == 1
    assert (found['jobs{queue="b",state="ready"}'], found['jobs{queue="c",state="ready"}']) == (1, 0)
    assert not [name for name in found if 'queue="a"' in name]
    admin.flushall()


def test_a_server_that_is_away() -> None:
    with Lockwork(f"redis://127.0.0.1:{free_port()}", patience=0) as app:
        found = _metrics(app)
    assert found["server_up"] == 0
    assert not [name for name in found if "queue=" in name]
