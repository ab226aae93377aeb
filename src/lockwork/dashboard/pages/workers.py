"""Workers: their jobs, load, and memory; make one quiet, or stop it."""

from __future__ import annotations

from typing import Any

from lockwork.dashboard.page import Form, NotFound, Page, View
from lockwork.inspection.overview import Part
from lockwork.protocol.keys import base_queue
from lockwork.workers import Worker

_SQUARES = 64
"""Maximum drawn slots; the rest appears as a number."""


async def read(view: View) -> dict[str, Any]:
    """Read the workers of the last hour, live ones first."""
    queue, name = view.param("queue"), view.request.path_params.get("name", "")
    overview = await view.overview(Part.WORKERS, names=())
    workers = [
        worker
        for worker in overview.workers
        if (not name or worker.name == name) and (not queue or queue in map(base_queue, worker.queues))
    ]
    workers.sort(key=lambda worker: (not worker.alive, worker.host, worker.pid))
    return {
        "rows": workers,
        "squares": _SQUARES,
        "alive": sum(worker.alive for worker in workers),
        "busy": sum(worker.busy for worker in workers if worker.alive),
        "slots": sum(worker.slots for worker in workers if worker.alive),
        "queues_of": _queues_of,
        "running": sorted(
            ((worker, job) for worker in workers if worker.alive for job in worker.jobs), key=lambda each: each[1].since
        ),
        "one": bool(name),
    }


async def quiet(view: View, form: Form) -> str:
    """Tell a worker to fetch no more jobs."""
    name = form.get("name", "")
    if not await view.lw.worker(name).aquiet():
        raise NotFound(f"No worker named {name} announced itself in the last minute.")
    return f"Worker {name} fetches no more jobs; running jobs continue."


async def resume(view: View, form: Form) -> str:
    """Tell a worker to fetch jobs again."""
    name = form.get("name", "")
    if not await view.lw.worker(name).aresume():
        raise NotFound(f"No worker named {name} announced itself in the last minute.")
    return f"Worker {name} fetches jobs again."


async def stop(view: View, form: Form) -> str:
    """Stop a worker, as SIGTERM does."""
    name = form.get("name", "")
    if not await view.lw.worker(name).astop():
        raise NotFound(f"No worker named {name} announced itself in the last minute.")
    return f"Worker {name} stops when its jobs have ended, or its grace has passed."


def _queues_of(worker: Worker) -> list[str]:
    """Return the worker's queues without their partitions."""
    return list(dict.fromkeys(map(base_queue, worker.queues)))


_ACTIONS = {"quiet": quiet, "resume": resume, "stop": stop}
PAGE = Page("workers", "/workers", "Workers", read, _ACTIONS, key="w")
ONE = Page("workers", "/workers/{name:path}", "Worker", read, _ACTIONS, rail=False, within="workers")
