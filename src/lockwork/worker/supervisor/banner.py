"""The startup log of a worker: the app, the server, tasks, queues, and processes."""

from __future__ import annotations

import os

from lockwork.app.lockwork import Lockwork
from lockwork.errors import LockworkError
from lockwork.logs import Log
from lockwork.protocol.queue.sessions import within
from lockwork.runtime.connect import embedded_setting
from lockwork.runtime.runtime import Runtime
from lockwork.version import VERSION
from lockwork.words import several
from lockwork.worker.settings import WorkerOptions
from lockwork.workers import read_running

log: Log = Log("lockwork.worker")

_PATIENCE = 0.5
_MOST = 20
"""Maximum number of listed names. For more tasks, the log gives the count."""


def log_start(app: Lockwork, options: WorkerOptions) -> None:
    """Log three lines, and a warning if other machines cannot reach the server.

    Raises a LockworkError if an embedded server is needed and cannot be started.
    """
    log.info("lockwork %s runs %s on %s", VERSION, options.app, app.runtime.server)
    if app.runtime.embedded and embedded_setting() is None and not os.isatty(2):
        # a service manager or a container without LOCKWORK_URL: a person at a terminal reads the line above
        log.warning(
            "this worker uses an embedded server, and jobs of other machines, containers and users never reach it: set "
            "LOCKWORK_URL, or LOCKWORK_EMBEDDED=on if this is intended"
        )
    tasks = app.registry.of(options.queues) or app.registry.of(app.registry.queues())
    names = sorted(task.name for task in tasks)
    first_names = ", ".join(names[:_MOST]) or "none"
    log.info("tasks: %s%s", first_names, f" and {len(names) - _MOST} more" if len(names) > _MOST else "")
    weights = options.weights or []
    shares = [f":{weight}" for weight in weights] if len(set(weights)) > 1 else [""] * len(options.queues)
    queues = ", ".join(f"{queue}{share}" for queue, share in zip(options.queues, shares, strict=True))
    processes = several(options.processes, "process", "processes")
    each = "" if options.processes == 1 else " each"
    log.info("queues: %s; %s, concurrency %d%s", queues, processes, options.concurrency, each)


def log_shared_queues(app: Lockwork, options: WorkerOptions, name: str) -> None:
    """Warn about each queue that live workers of another app serve, if the apps share no task; never raises."""
    try:
        running = app.runtime.run(within(_PATIENCE, read_running(app.config.prefix)))
    except LockworkError:
        return  # the user may not read announcements, or the server is unreachable
    own = app.registry.names()
    for queue in options.queues:
        served = [each for part in app.config.partitions.names(queue) for each in running.of_workers(part)]
        others = {each.name: each for each in served if each.name != name and each.tasks}
        strangers = sorted(each.name for each in others.values() if not any(map(each.task, own)))
        if strangers:
            log.warning(
                "queue %s is also served by workers of %s, which shares no task with this app: a job that reaches the "
                "wrong app waits for another worker; give each app a queue or a prefix of its own",
                queue,
                " and ".join(strangers),
            )


def log_found(runtime: Runtime) -> None:
    """Log the server that the Sentinels named, or the number of Cluster shards; requires a connection."""
    if runtime.found:
        log.info("%s", runtime.found)
