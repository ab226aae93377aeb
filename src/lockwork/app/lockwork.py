"""The `Lockwork` class: the one object that an app creates."""

from __future__ import annotations

from lockwork.app.locks import LockMethods
from lockwork.app.metrics import MetricsMethods
from lockwork.app.monitoring import MonitoringMethods
from lockwork.app.planning import PlanningMethods
from lockwork.app.queues import QueueMethods
from lockwork.app.synchronizers import SynchronizerMethods
from lockwork.app.tasks import TaskMethods
from lockwork.app.workers import WorkerMethods


class Lockwork(
    LockMethods,
    SynchronizerMethods,
    QueueMethods,
    TaskMethods,
    PlanningMethods,
    MonitoringMethods,
    MetricsMethods,
    WorkerMethods,
):
    """Locks, queues and stocks on Redis or Valkey, for threads and asyncio alike.

    It connects on first use. Durations are seconds, a `timedelta`, or text such as "10m".

    Args:
        url: redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://. None (default): LOCKWORK_URL, else an
            embedded Valkey server in this user's data folder, which this user's processes share; it stops with the
            last of them.
        client: a redis-py client whose address to use instead of a URL. Default None.
        prefix: begins every key and channel; apps with different prefixes do not see each other. Default "lw".
        lock_lease: a lock lasts this long unless it is renewed, every third of it. Default 15 s.
        patience: how long a call is retried while the server cannot be reached, before ServerUnavailable. Default 10 s.
        result_ttl: results are kept at least this long, and at most twice as long. At least 60 s. Default 10 minutes.
        dead_ttl: a dead job is kept this long. Default 30 days.
        dead_limit: maximum number of dead jobs per queue; the oldest are deleted first. Default 100,000.
        history: ended jobs that each queue keeps, besides dead ones: the newest "10k" (default), those of a period such
            as "1d", or "off"; or a dict by queue, such as {"mail": "off"}.
        max_payload: maximum bytes of a job's encoded arguments. Default 1 MiB.
        max_result: maximum bytes of an encoded result. Default 4 MiB.
        allow_eviction: accept a server whose maxmemory-policy may evict Lockwork's keys. Default False.
        partitions: number of partitions of a queue, such as {"mail": 4}; the same in all processes. Default none.
        app_name: names this app in `apps` and `workers`. Default: its `module:object`, as given to `lockwork worker`.
        app_version: the version of the app's code, such as a commit, shown with its workers and marked in the
            dashboard's chart when it changes. Default LOCKWORK_APP_VERSION, else none.
    """
