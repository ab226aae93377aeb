"""Ends each call of a worker as Django ends a request, in the thread that ran it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.core.cache import close_caches
from django.db import connections, reset_queries
from django.db.backends.base.base import BaseDatabaseWrapper
from django.urls import set_urlconf
from django.utils import timezone, translation

from lockwork.logs import Log

log: Log = Log("lockwork")

_HEALTH_CHECK = "health_check_enabled"
"""An attribute of a connection; its first query in a call checks a connection that outlived the last call."""


@contextlib.contextmanager
def as_request() -> Iterator[None]:
    """Surround a call in a thread. A connection with an open transaction stays as it is."""
    _attempt(reset_queries)
    for connection in connections.all(initialized_only=True):
        _attempt(partial(_end_request, connection))
        # the database may have been restarted since the last call in this thread
        setattr(connection, _HEALTH_CHECK, True)
    try:
        yield
    finally:
        for connection in connections.all(initialized_only=True):
            _attempt(partial(_end_request, connection))
        _leave()


@contextlib.asynccontextmanager
async def as_request_on_loop() -> AsyncIterator[None]:
    """Surround a job on the event loop: `sync_to_async` runs the ORM in a thread that only this job uses."""
    if SyncToAsync.thread_sensitive_context.get(None) is not None:
        yield
        return
    async with ThreadSensitiveContext() as context:
        try:
            yield
        finally:
            if context in SyncToAsync.context_to_thread_executor:  # the job used the thread, which ends with it
                await sync_to_async(_close_thread)()
            _leave()


def _end_request(connection: BaseDatabaseWrapper) -> None:
    """Do what `close_old_connections` does, and also close a connection that had an error."""
    if connection.errors_occurred and not connection.in_atomic_block:
        connection.close()  # not every database wrapper notices that it is unusable
    connection.close_if_unusable_or_obsolete()


def _close_thread() -> None:
    for connection in connections.all(initialized_only=True):
        _attempt(connection.close)
    _attempt(close_caches)


def _leave() -> None:
    _attempt(close_caches)
    translation.deactivate()
    timezone.deactivate()
    set_urlconf(None)


def _attempt(step: Callable[[], object]) -> None:
    """Do a step of the clean-up; an error is logged, because the job has ended already."""
    try:
        step()
    except Exception:
        log.exception("a database connection or cache could not be closed after a job")
