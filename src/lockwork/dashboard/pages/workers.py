"""Workers: what each runs and since when, how busy it is, and its memory; let one go quiet, or stop it."""

from __future__ import annotations

from typing import Any

from lockwork.dashboard.page import Form, NotFound, Page, View
from lockwork.protocol.keys import base_queue
from lockwork.workers import Worker

_SQUARES = 64
"""Slots that are drawn; of more, the rest are a number."""


async def read(view: View) -> dict[str, Any]:
    """Read the workers of the last hour, those alive first."""
    queue, name = view.param("queue"), view.request.path_params.get("name", "")
    found = [
        worker
        for worker in await view.lw.aworkers()
        if (not name or worker.name == name) and (not queue or queue in map(base_queue, worker.queues))
    ]
    found.sort(key=lambda worker: (not worker.alive, worker.host, worker.pid))
    return {
        "rows": found,
        "squares": _SQUARES,
        "alive": sum(worker.alive for worker in found),
        "busy": sum(worker.busy for worker in found if worker.alive),
        "slots": sum(worker.slots for worker in found if worker.alive),
        "queues_of": _queues_of,
        "running": sorted(
            ((worker, job) for worker in found if worker.alive for job in worker.jobs), key=lambda each: each[1].since
        ),
        "one": bool(name),
    }


async def quiet(view: View, form: Form) -> str:
    """Let a worker fetch no more jobs."""
    name = form.get("name", "")
    if not await view.lw.worker(name).aquiet():
        raise NotFound(f"No worker named {name} announced itself in the last minute.")
    return f"Worker {name} fetches no more jobs; running jobs continue."


async def resume(view: View, form: Form) -> str:
    """Let a worker fetch jobs again."""
    name = form.get("name", "")
    if not await view.lw.worker(name).aresume():
        raise NotFound(f"No worker named {name} announced itself in the last minute.")
    return f"Worker {name} fetches jobs again."


async def stop(view: View, form: Form) -> str:
    """End a worker, as SIGTERM does."""
    name = form.get("name", "")
    if not await view.lw.worker(name).astop():
        raise NotFound(f"No worker named {name} announced itself in the last minute.")
    return f"Worker {name} stops when its jobs have ended, or its grace has passed."


def _queues_of(worker: Worker) -> list[str]:
    """Return its queues without their partitions."""
    return list(dict.fromkeys(map(base_queue, worker.queues)))


_ACTIONS = {"quiet": quiet, "resume": resume, "stop": stop}
PAGE = Page("workers", "/workers", "Workers", read, _ACTIONS, key="w")
ONE = Page("workers", "/workers/{name:path}", "Worker", read, _ACTIONS, rail=False, within="workers")
