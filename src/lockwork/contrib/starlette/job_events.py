"""A job's progress and outcome as server-sent events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from lockwork import codecs
from lockwork.durations import Duration, seconds
from lockwork.errors import LockworkError
from lockwork.jobs.job import Job
from lockwork.jobs.snapshot import JobSnapshot

log: logging.Logger = logging.getLogger("lockwork")

_END = "end"
"""The id of the last event: a browser that connects again sends it."""
_RETRY_MS = 2000
_LARGEST = 64 * 1024 * 1024
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def job_events(request: Request, job: Job[Any], *, heartbeat: Duration = 15) -> Response:
    """Return a response with the events of a job, `text/event-stream` for the browser's `EventSource`.

    An event `progress` has the value of each change, as JSON. The last event, `end`, has a dict with `state` and, after
    a success, `result`, or after a failure, `error` with `type` and `text`. For a job that has ended, `end` is the only
    event after its last progress. When the browser connects again after `end`, the answer is 204, so that it stops.

    The ids of jobs are not secret: check first if the user may see this job.

    Args:
        request: of the endpoint.
        job: such as `task.job(id)`.
        heartbeat: time without events until a comment is sent, so that proxies keep the connection. Default 15 s.

    Raises HTTPException with status 404 if the job is unknown.
    """
    pause = seconds(heartbeat, "heartbeat")
    if request.headers.get("last-event-id") == _END:
        return Response(status_code=204, headers=_HEADERS)
    if await job.astate() == "unknown":
        raise HTTPException(404, "No such job.", {"Cache-Control": "no-store"})
    return StreamingResponse(_with_heartbeats(_events(job), pause), media_type="text/event-stream", headers=_HEADERS)


async def _events(job: Job[Any]) -> AsyncIterator[str]:
    yield f"retry: {_RETRY_MS}\n\n"
    try:
        async for progress in job.awatch():
            yield _event("progress", progress)
        yield _event("end", _outcome(await job.ainspect()), _END)
    except LockworkError as error:
        # without the last event, the browser connects again
        log.warning("the events of job %s stopped: %s", job.id, error)


def _outcome(snapshot: JobSnapshot) -> dict[str, Any]:
    outcome: dict[str, Any] = {"state": snapshot.state}
    if snapshot.state == "succeeded":
        outcome["result"] = snapshot.result
    elif snapshot.error is not None:
        outcome["error"] = {"type": snapshot.error.type, "text": snapshot.error.text}
    return outcome


def _event(name: str, value: object, id: str | None = None) -> str:
    data = codecs.encode(value, "an event", _LARGEST).decode()
    return f"event: {name}\n{'' if id is None else f'id: {id}{chr(10)}'}data: {data}\n\n"


async def _with_heartbeats(events: AsyncIterator[str], pause: float) -> AsyncIterator[str]:
    """Yield the events, and a comment after each pause without one."""
    following = asyncio.ensure_future(anext(events, None))
    try:
        while True:
            done, _ = await asyncio.wait([following], timeout=pause)
            if not done:
                yield ": still here\n\n"
                continue
            event = following.result()
            if event is None:
                return
            yield event
            following = asyncio.ensure_future(anext(events, None))
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait([following])
