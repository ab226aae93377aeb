"""What a worker logs at its start: the app, the server, tasks, queues, and processes."""

from __future__ import annotations

from importlib.metadata import version

from lockwork.app.lockwork import Lockwork
from lockwork.logs import Log
from lockwork.runtime.runtime import Runtime
from lockwork.validation import several
from lockwork.worker.settings import WorkerOptions

log: Log = Log("lockwork.worker")

_MOST = 20
"""Names that are listed; of an app with more tasks, the log says how many there are."""


def log_start(app: Lockwork, options: WorkerOptions) -> None:
    """Log three lines; raises a LockworkError if an embedded server is needed and cannot be started."""
    log.info("lockwork %s runs %s on %s", version("lockwork"), options.app, app.runtime.server)
    names = sorted(task.name for task in app.registry.of(options.queues))
    shown = ", ".join(names[:_MOST]) or "none"
    log.info("tasks: %s%s", shown, f" and {len(names) - _MOST} more" if len(names) > _MOST else "")
    weights = options.weights or []
    shares = [f":{weight}" for weight in weights] if len(set(weights)) > 1 else [""] * len(options.queues)
    queues = ", ".join(f"{queue}{share}" for queue, share in zip(options.queues, shares, strict=True))
    processes = several(options.processes, "process", "processes")
    each = "" if options.processes == 1 else " each"
    log.info("queues: %s; %s, concurrency %d%s", queues, processes, options.concurrency, each)


def log_found(runtime: Runtime) -> None:
    """Log where the Sentinels have led, or of how many shards the Cluster is; call it when the server was reached."""
    if runtime.found:
        log.info("%s", runtime.found)
