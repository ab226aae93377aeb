"""Tasks that return their headers, and middlewares that set them."""

from __future__ import annotations

from collections.abc import Iterator

from lockwork import Lockwork, current_job
from lockwork.types import Outgoing

lw = Lockwork()
seen: list[tuple[str, str, int, int]] = []


@lw.enqueue_middleware
def outer(outgoing: Outgoing) -> Iterator[None]:
    outgoing.headers["tenant"] = "acme"
    try:
        yield
    except Exception:  # noqa: BLE001 - it swallows it
        return
    finally:
        seen.append((outgoing.task, outgoing.queue, outgoing.count, len(outgoing.ids)))


@lw.enqueue_middleware
def inner(outgoing: Outgoing) -> Iterator[None]:
    outgoing.headers["tenant"] += "/inner"
    yield


@lw.task(backoff=0.01)
async def told(number: int, *, fails: bool = False) -> list[object]:
    job = current_job()
    if fails and job.attempt == 1:
        raise ValueError(number)
    return [number, job.attempt, job.headers, list(job.tags)]


@lw.task
async def after(before: list[object]) -> list[object]:
    return [before[2], current_job().headers]
