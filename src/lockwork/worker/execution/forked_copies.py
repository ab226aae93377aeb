"""Copies of a worker process that jobs fork: a copy that leaves the job's function ends, and does no further work."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from concurrent.futures import thread
from inspect import CO_COROUTINE
from types import FrameType
from typing import NoReturn

from lockwork.jobs.current import jobs_here
from lockwork.logs import Log
from lockwork.worker.execution.timeouts import shown_jobs

log: Log = Log("lockwork.jobs")
_copies: list[int] = []
"""Process id of the copy, in a copy."""


def watch_for_copies() -> None:
    """Detect copies of this process from now on; call this in the thread of its event loop."""
    own = threading.get_ident()
    _copies.clear()  # this process may itself be a fork

    def forked() -> None:
        _copies.append(os.getpid())
        # otherwise multiprocessing joins the job's own thread at its exit, and fails with status 1 (before Python 3.14)
        getattr(thread, "_threads_queues", {}).clear()
        if threading.get_ident() == own:
            _end_before_loop(sys._getframe())  # noqa: SLF001 - no other way to the job's frames

    os.register_at_fork(after_in_child=forked)


def _end_before_loop(frame: FrameType | None) -> None:
    """End the copy when its asyncio task waits or is done: its loop shares file descriptors with the original."""
    outermost = None
    while frame is not None:
        if frame.f_code.co_flags & CO_COROUTINE:
            outermost = frame
        frame = frame.f_back

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and frame is outermost:
            _waits()

    sys.setprofile(watch)


def leave_copy() -> None:
    """End this process if it is a copy, as a script would end with the current exception, if any."""
    if not _copies:
        return
    error = sys.exception()
    if isinstance(error, SystemExit):
        _exit(error.code if isinstance(error.code, int) else int(error.code is not None))
    if error is None:
        log.warning("%s returned from the task: the copy exits; let it end with os._exit() in the task", _copy())
        _exit(0)
    log.error("%s failed: %s: %s", _copy(), type(error).__name__, error, exc_info=error)
    _exit(1)


def _waits() -> NoReturn:
    log.error("%s waits on the event loop, which works only in the process itself: the copy exits", _copy())
    _exit(1)


def _copy() -> str:
    jobs = jobs_here()
    return f"{shown_jobs(jobs) if jobs else 'a job'} forked a copy of its process, which"


def _exit(status: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(status & 0xFF)
