"""Deliver the messages of flows between queues. A worker that finds some does so, and each caller that causes some."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from lockwork.errors import LockworkError
from lockwork.ids import new_id
from lockwork.protocol.effects import Argument, Call, Protocol, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import job_control

_MOST = 1000
"""Limit of batches per run; the next run delivers the rest."""


def relay(
    queue: QueueKeys,
    window_ms: int,
    *,
    request: str | None = None,
    most: int = _MOST,
    on_error: Callable[[str, LockworkError], object] = lambda _queue, _error: None,
) -> Protocol[None]:
    """Deliver the messages that wait in a queue, and those that their delivery causes in other queues.

    request: a new text that begins the requests of this run; default: a random one. most: limit of batches. on_error:
    called with a queue that cannot be reached, and its error; its messages wait for a later run.
    """
    run = request or new_id()
    requests = (f"{run}/{number}" for number in count())
    waiting, batches = {queue.name: queue}, 0
    while waiting and batches < most:
        _, source = waiting.popitem()
        taker = next(requests)
        try:
            reply = yield _take(source, window_ms, taker)
            while reply:
                batches += 1
                # at the limit, take no batch that would stay leased; the server then wakes an idle worker for the rest
                taken, taker = taker, next(requests) if batches < most else ""
                call = yield from _deliver(source, window_ms, reply, taken, taker, waiting, on_error)
                reply = yield call
        except LockworkError as error:
            on_error(source.name, error)


def _take(source: QueueKeys, window_ms: int, taker: str, *done: Argument) -> Call:
    args: list[Argument] = list(done) if done else ["", "", 0]
    return script_call("flows/relay", source, [0, window_ms, *args[:3], taker, *args[3:]])


def _deliver(
    source: QueueKeys,
    window_ms: int,
    batch: list[Any],
    taken: str,
    taker: str,
    waiting: dict[str, QueueKeys],
    on_error: Callable[[str, LockworkError], object],
) -> Protocol[Call]:
    """Deliver a batch; return the call that acknowledges it, and takes the next one."""
    name, last, *messages = batch
    queue = QueueKeys(source.prefix, name.decode())
    try:
        reply = yield script_call("flows/receive", queue, [window_ms, source.name, *messages])
        applied, more, running, unknown = reply
        for id in running:  # so that the job's worker is notified; this call changes nothing else
            yield from job_control.cancel(queue, id.decode(), queue.prefix, window_ms)
    except LockworkError as error:
        on_error(queue.name, error)
        return _take(source, window_ms, taker)
    if more:
        waiting[queue.name] = queue
    before = last - len(messages)
    return _take(source, window_ms, taker, taken, name, before + applied, *(before + each for each in unknown))
