"""Families of workers, from their announcements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from lockwork.telemetry.families import Family, gauge
from lockwork.workers import Worker, WorkerState


def worker_families(announced: Sequence[Worker]) -> list[Family]:
    """Count the workers of the last hour by app and state, and the slots of live workers."""
    counts = Counter((worker.app, worker.state) for worker in announced)
    workers = gauge("workers", "Workers of an app, by state; lost: no announcement, in the last hour")
    slots = gauge("worker_slots", "Jobs that the workers of an app can run at once")
    busy = gauge("worker_slots_busy", "Jobs that the workers of an app run")
    waiting = gauge("worker_slots_waiting", "Jobs that the workers of an app run, and that wait for results")
    lag = gauge("worker_event_loop_lag_seconds", "Maximum event-loop lag, by app")
    for app in sorted({worker.app for worker in announced}):
        for state in get_args(WorkerState):
            workers.add(counts[app, state], app=app, state=state)
        alive = [worker for worker in announced if worker.app == app and worker.alive]
        slots.add(sum(worker.slots for worker in alive), app=app)
        busy.add(sum(worker.busy for worker in alive), app=app)
        waiting.add(sum(worker.waiting for worker in alive), app=app)
        lag.add(max((worker.lag or 0.0 for worker in alive), default=0.0), app=app)
    return [workers, slots, busy, waiting, lag]
